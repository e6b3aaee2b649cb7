#pragma once

#include <farcall/am/deferred_reply.hpp>
#include <farcall/base/error.hpp>
#include <farcall/call/context.hpp>
#include <farcall/call/invoke.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace farcall {

/// The reply to a call, in the hand of its handler: a handler that takes a `fc::reply<T>` as its
/// first parameter, and returns void, is called like one that returns a T, and gives the T when it
/// has one, before or after it has returned. Meanwhile it takes no thread and no stack.
///
///     void after_lunch(fc::reply<int> r, int x) {
///       lunch.then([r = std::move(r), x]() mutable { r.set_value(x + 1); });
///     }
///     int y = fc::sync(node, after_lunch, 1);
///
/// Move-only. Any thread may give it, one does. When it goes without having been given, the call
/// ends with an error; a target ends only when all are given. When the lane of the call, or the
/// job, has ended, giving it does nothing. As UPC++'s and Thallium's deferred responses.
template <class T>
class reply {
 public:
  /// For the library itself: what sends it.
  explicit reply(am::deferred_reply to) noexcept
      : to_(std::move(to)), context_(current_context()) {}

  /// False once it was given.
  [[nodiscard]] bool is_pending() const noexcept { return to_.is_pending(); }
  /// False for a posted call: nobody waits for the value.
  [[nodiscard]] bool is_wanted() const noexcept { return to_.wants_reply(); }

  /// Gives the result; what packing it throws goes to the caller. Does not block. Throws error when
  /// it was given before.
  template <class V = T>
    requires(!std::is_void_v<T> && std::is_convertible_v<const V&, const T&>)
  void set_value(const V& value) {
    give([&](am::request_context& request) {
      detail::send_reply<T>(request, static_cast<const T&>(value));
    });
  }
  /// Ends a call without a result. Throws as above.
  void set_value()
    requires(std::is_void_v<T>)
  {
    give([](am::request_context& request) { detail::run_and_reply<void>(request, [] {}); });
  }
  /// Ends the call with what `why`, not null, holds, as if the handler had thrown it. Throws as
  /// above.
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
