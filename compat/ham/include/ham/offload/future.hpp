#pragma once

#include <ham/misc/packing.hpp>

#include <farcall/offload/future.hpp>

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace ham::offload {
namespace detail {

/// What travels back for a result of type T.
template <class T>
struct returned {
  using type = std::conditional_t<ham::detail::travels_as_it_is<T>, T, migratable<T>>;
};
template <>
struct returned<void> {
  using type = void;
};

/// Of what has travelled, the result.
template <class T>
[[nodiscard]] T from_transported(typename returned<T>::type&& result) {
  if constexpr (std::is_same_v<typename returned<T>::type, T>) {
    return std::move(result);
  } else {
    return static_cast<const T&>(result);
  }
}

/// A result that a destructor waited for and nobody took.
void report_lost(std::exception_ptr failure) noexcept;

} // namespace detail

/// The result of an offload. Its destructor waits for it, so that a call whose future is not kept
/// is a synchronous one. Move-only.
template <class T>
class future {
 public:
  using transported = farcall::future<typename detail::returned<T>::type>;

  /// One that holds nothing, whatever is said: a result can only come from a call.
  future(bool /*valid*/ = false) noexcept {}
  future(transported&& result) noexcept : result_(std::move(result)) {}
  future(future&&) noexcept = default;
  /// Waits first for the result that was held so far.
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

  /// True when get() would not wait. May be asked as often as one likes.
  [[nodiscard]] bool test() { return !valid() || result_.test(); }
  [[nodiscard]] bool valid() const { return result_.valid(); }

  /// Waits and takes the result. Throws what the call ended with.
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
