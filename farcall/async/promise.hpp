// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/future.hpp>
#include <farcall/base/error.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace farcall {

/// The end of a future at which the program itself sets the value, from any thread (like
/// std::promise). For events outside farcall, for example a timer, a user's decision, or the end of
/// a thread's work. A handler may return the future.
///
/// Move-only; used by one thread at a time. Continuations and coroutines that wait for the future
/// run on the thread that sets the value. A promise that is destroyed without a value ends its
/// future with an error.
template <class T>
class promise {
 public:
  /// Makes a promise with its future. Throws std::bad_alloc.
  promise()
      : state_(new detail::local_state<T>(nullptr)),
        future_(detail::future_access::make<T>(state_)) {}
  promise(promise&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), future_(std::move(other.future_)) {}
  promise& operator=(promise&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(future_, other.future_);
    return *this;
  }
  promise(const promise&) = delete;
  promise& operator=(const promise&) = delete;
  ~promise() {
    if (state_ == nullptr) return;
    std::exception_ptr why;
    if (!future_.valid()) {
      try {
        why = std::make_exception_ptr(error("the promise went without giving a value"));
      } catch (...) {
        why = std::current_exception();
      }
    }
    end(std::move(why));
  }

  /// Returns the future; may be called before or after the value is set. Throws error if the future
  /// was taken before.
  [[nodiscard]] future<T> get_future() {
    if (!future_.valid()) throw error("the future of this promise was taken before");
    return std::move(future_);
  }

  /// Sets the value, which makes the future ready. Throws error if the promise was completed
  /// before, and what moving the value throws.
  template <class V = T>
    requires(!std::is_void_v<T> && std::is_constructible_v<T, V>)
  void set_value(V&& value) {
    require_open();
    state_->value.emplace(std::forward<V>(value));
    end(nullptr);
  }
  /// Makes the future ready. Throws error if the promise was completed before.
  void set_value()
    requires(std::is_void_v<T>)
  {
    require_open();
    state_->value.emplace();
    end(nullptr);
  }
  /// Makes the future ready with the exception that `why` holds. Throws error if the promise was
  /// completed before, and if `why` is null.
  void set_exception(std::exception_ptr why) {
    require_open();
    if (why == nullptr) throw error("a promise was given a null exception");
    end(std::move(why));
  }

 private:
  void require_open() const {
    if (state_ == nullptr)
      throw error("this promise has given its value before, or was moved from");
  }

  void end(std::exception_ptr why) noexcept {
    auto* const ended = std::exchange(state_, nullptr);
    if (future_.valid()) {
      ended->complete_unshared(std::move(why));
    } else {
      ended->complete(std::move(why));
    }
  }

  detail::local_state<T>* state_; ///< state of the future; null once the value was set
  future<T> future_;              ///< the future of the promise, until get_future() takes it
};

} // namespace farcall
