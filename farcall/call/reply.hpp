// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/deferred_reply.hpp>
#include <farcall/base/error.hpp>
#include <farcall/call/context.hpp>
#include <farcall/call/invoke.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace farcall {

/// The reply to a call, which the call's handler gives. A handler that takes a `fc::reply<T>` as
/// its first parameter and returns void is called like a function that returns a T. The handler
/// gives the T when the value is available, before or after the handler has returned. Until then
/// the call takes no thread and no stack.
///
///     void after_lunch(fc::reply<int> r, int x) {
///       lunch.then([r = std::move(r), x]() mutable { r.set_value(x + 1); });
///     }
///     int y = fc::sync(node, after_lunch, 1);
///
/// Move-only. Any single thread may give the reply. If the object is destroyed before the reply was
/// given, the call ends with an error. A target ends only when all replies were given. If the lane
/// of the call, or the job, has ended, giving the reply has no effect. Like the deferred responses
/// of UPC++ and Thallium.
template <class T>
class reply {
 public:
  /// For the library itself: makes the reply to a request.
  explicit reply(am::deferred_reply to) noexcept
      : to_(std::move(to)), context_(current_context()) {}

  /// True until the reply was given.
  [[nodiscard]] bool is_pending() const noexcept { return to_.is_pending(); }
  /// False for a posted call, because its caller does not wait for the reply.
  [[nodiscard]] bool is_wanted() const noexcept { return to_.wants_reply(); }

  /// Gives the result to the caller. If packing the result throws, the caller gets the exception.
  /// Does not block. Throws error if the reply was given before.
  template <class V = T>
    requires(!std::is_void_v<T> && std::is_convertible_v<const V&, const T&>)
  void set_value(const V& value) {
    give([&](am::request_context& request) {
      detail::send_reply<T>(request, static_cast<const T&>(value));
    });
  }
  /// Ends a call that has no result. Throws error if the reply was given before.
  void set_value()
    requires(std::is_void_v<T>)
  {
    give([](am::request_context& request) { detail::run_and_reply<void>(request, [] {}); });
  }
  /// Ends the call with the exception in `why`, which must not be null, as if the handler had
  /// thrown it. Throws error if the reply was given before.
  void set_exception(const std::exception_ptr& why) {
    give([&](am::request_context& /*request*/) { std::rethrow_exception(why); });
  }

 private:
  template <class Give>
  void give(const Give& how) {
    if (!is_pending()) throw error("this reply was given before, or was moved from");
    to_.send([&](am::request_context& request) {
      const detail::context_scope scope(context_);
      try {
        how(request);
      } catch (...) {
        detail::reply_exception(request);
      }
    });
  }

  am::deferred_reply to_;
  const call_context* context_;
};

} // namespace farcall
