// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/future.hpp>
#include <farcall/async/ready_or_late.hpp>

#include <exception>
#include <type_traits>
#include <utility>

#if __has_include(<stdexec/execution.hpp>)
#include <stdexec/execution.hpp>
#endif

/// Makes senders of P2300 from futures. Not part of farcall.hpp. If <stdexec/execution.hpp> is
/// found, they are senders of stdexec. Otherwise any receiver that has set_value() and set_error()
/// can be connected.
namespace farcall {
namespace detail {

#if __has_include(<stdexec/execution.hpp>)
using sender_tag = stdexec::sender_t;
using operation_state_tag = stdexec::operation_state_t;
template <class T>
struct signatures_of {
  using type = stdexec::completion_signatures<stdexec::set_value_t(T),
                                              stdexec::set_error_t(std::exception_ptr)>;
};
template <>
struct signatures_of<void> {
  using type = stdexec::completion_signatures<stdexec::set_value_t(),
                                              stdexec::set_error_t(std::exception_ptr)>;
};
template <class R, class... V>
void give_value(R&& to, V&&... value) {
  stdexec::set_value(std::forward<R>(to), std::forward<V>(value)...);
}
template <class R>
void give_error(R&& to, std::exception_ptr why) noexcept {
  stdexec::set_error(std::forward<R>(to), std::move(why));
}
#else
struct sender_tag {};
struct operation_state_tag {};
struct set_value_t {};
struct set_error_t {};
/// List of a sender's completions. Each is a function type whose result type is the tag of the
/// completion.
template <class... S>
struct completion_signatures {};
template <class T>
struct signatures_of {
  using type = completion_signatures<set_value_t(T), set_error_t(std::exception_ptr)>;
};
template <>
struct signatures_of<void> {
  using type = completion_signatures<set_value_t(), set_error_t(std::exception_ptr)>;
};
template <class R, class... V>
void give_value(R&& to, V&&... value) {
  std::forward<R>(to).set_value(std::forward<V>(value)...);
}
template <class R>
void give_error(R&& to, std::exception_ptr why) noexcept {
  std::forward<R>(to).set_error(std::move(why));
}
#endif

[[noreturn]] inline void throw_empty_sender() { throw error("an empty future cannot be a sender"); }

} // namespace detail

/// A future connected with a receiver. Must not be moved between start() and the completion of the
/// receiver. Started once, by any thread.
template <class T, class R>
class future_operation final : private am::continuation {
 public:
  using operation_state_concept = detail::operation_state_tag; ///< tag of std::execution

  /// Used by future_sender::connect().
  future_operation(future<T> from, R to)
      : from_(std::move(from)), to_(std::move(to)),
        timed_(detail::future_access::state(from_), detail::future_access::deadline(from_)) {}
  future_operation(const future_operation&) = delete;
  future_operation& operator=(const future_operation&) = delete;
  ~future_operation() override = default;

  /// Completes the receiver once the result is ready, either at once or on the thread that takes
  /// the reply. At the deadline, completes the receiver with timeout, on a thread of the library.
  void start() noexcept { timed_.begin(detail::future_access::state(from_), *this); }

 private:
  void run() noexcept override {
    (void)timed_.end(detail::future_access::state(from_), nullptr);
    try {
      if constexpr (std::is_void_v<T>) {
        from_.get();
        detail::give_value(std::move(to_));
      } else {
        detail::give_value(std::move(to_), from_.get());
      }
    } catch (...) {
      detail::give_error(std::move(to_), std::current_exception());
    }
  }

  future<T> from_;
  R to_;
  detail::ready_or_late timed_; ///< declared after from_, so that timed_ is destroyed before from_
};

/// A future as a sender, which completes with its value, or with set_error and the exception that
/// get() throws; see as_sender(). Move-only; used by one thread at a time.
template <class T>
class future_sender {
 public:
  using sender_concept = detail::sender_tag; ///< tag of std::execution
  /// Completions that a receiver has to expect: set_value with the result, and set_error.
  using completion_signatures = typename detail::signatures_of<T>::type;

  /// Used by as_sender().
  explicit future_sender(future<T> from) noexcept : from_(std::move(from)) {}

  /// Returns the operation state, whose start() begins the wait. This sender is empty afterwards.
  /// Throws what moving the receiver throws; with a deadline, std::bad_alloc, and std::system_error
  /// if no thread can be made.
  template <class R>
  [[nodiscard]] future_operation<T, std::remove_cvref_t<R>> connect(R&& to) && {
    return {std::move(from_), std::forward<R>(to)};
  }

 private:
  future<T> from_;
};

/// Returns the future as a sender, which completes with the result, or with timeout at the
/// deadline. Some thread has to take the replies of the job, as for then(). A thread that waits for
/// the sender by a function of another library takes no replies. A program with such a thread must
/// set FARCALL_PROGRESS=thread, or call job::progress() regularly. Throws error for an empty
/// future.
template <class T>
[[nodiscard]] future_sender<T> as_sender(future<T> from) {
  if (!from.valid()) detail::throw_empty_sender();
  return future_sender<T>(std::move(from));
}

} // namespace farcall
