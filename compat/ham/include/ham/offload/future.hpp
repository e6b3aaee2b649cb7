// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/misc/packing.hpp>

#include <farcall/async/future.hpp>

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace ham::offload {
namespace detail {

/// Type in which a target sends the result of a function that returns a T.
template <class T>
struct returned {
  using type = std::conditional_t<ham::detail::is_packed_as_it_is<T>, T, migratable<T>>;
};
template <>
struct returned<void> {
  using type = void;
};

/// Converts a result from the type in which it was sent to the type T.
template <class T>
[[nodiscard]] T from_transported(typename returned<T>::type&& result) {
  if constexpr (std::is_same_v<typename returned<T>::type, T>) {
    return std::move(result);
  } else {
    return static_cast<const T&>(result);
  }
}

/// Logs the exception of a call whose future was destroyed before get() was called.
void report_lost(std::exception_ptr failure) noexcept;

} // namespace detail

/// Result of an offload. The destructor waits for the result, so that a call of async() is
/// synchronous if its future is not stored. Futures can be moved, not copied.
template <class T>
class future {
 public:
  using transported = farcall::future<typename detail::returned<T>::type>;

  /// Makes a future that belongs to no call and has no result. The argument has no effect; it
  /// exists for compatibility with HAM.
  future(bool /*valid*/ = false) noexcept {}
  future(transported&& result) noexcept : result_(std::move(result)) {}
  future(future&&) noexcept = default;
  /// Waits for the result of this future, then replaces it by the result of `other`.
  future& operator=(future&& other) noexcept {
    if (this != &other) {
      finish();
      result_ = std::move(other.result_);
    }
    return *this;
  }
  future(const future&) = delete;
  future& operator=(const future&) = delete;
  ~future() { finish(); }

  /// True if get() would return without waiting. May be called several times, also after get().
  [[nodiscard]] bool test() { return !valid() || result_.test(); }
  [[nodiscard]] bool valid() const { return result_.valid(); }

  /// Waits for the result and returns it. Throws the exception that the call has thrown.
  T get() {
    if constexpr (std::is_void_v<T>) {
      if (valid()) result_.get();
    } else {
      return detail::from_transported<T>(result_.get());
    }
  }

 private:
  void finish() noexcept {
    if (!valid()) return;
    try {
      static_cast<void>(get());
    } catch (...) {
      detail::report_lost(std::current_exception());
    }
  }

  transported result_;
};

} // namespace ham::offload
