#pragma once

#include <farcall/base/error.hpp>
#include <farcall/offload/future.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace farcall {

/// The other end of a future: whoever has it gives the value, from any thread (std::promise). For
/// what farcall does not call: a timer, a user's decision, a thread of one's own. A handler may
/// return the future.
///
/// Move-only; used by one thread at a time. What waits for the future by then(), or as a coroutine,
/// runs on the thread that gives the value. A promise that goes without having given it leaves its
/// future with an error.
template <class T>
class promise {
 public:
  /// Throws std::bad_alloc.
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
    state_->complete(std::move(why));
  }

  /// The future; once. It may be taken before and after the value is given. Throws error when it
  /// was taken before.
  [[nodiscard]] future<T> get_future() {
    if (!future_.valid()) throw error("the future of this promise was taken before");
    return std::move(future_);
  }

  /// Gives the value. Throws error when that was done before, and what moving the value throws.
  template <class V = T>
    requires(!std::is_void_v<T> && std::is_constructible_v<T, V>)
  void set_value(V&& value) {
    require_open();
    state_->value.emplace(std::forward<V>(value));
    std::exchange(state_, nullptr)->complete(nullptr);
  }
  /// Makes the future ready. Throws error when that was done before.
  void set_value()
    requires(std::is_void_v<T>)
  {
    require_open();
    state_->value.emplace();
    std::exchange(state_, nullptr)->complete(nullptr);
  }
  /// The future throws what `why` holds. Throws error when it was made ready before, and for null.
  void set_exception(std::exception_ptr why) {
    require_open();
    if (why == nullptr) throw error("a promise was given a null exception");
    std::exchange(state_, nullptr)->complete(std::move(why));
  }

 private:
  void require_open() const {
    if (state_ == nullptr)
      throw error("this promise has given its value before, or was moved from");
  }

  detail::local_state<T>* state_; ///< null once it is given
  future<T> future_;              ///< until it is taken
};

} // namespace farcall
