// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/deferred_reply.hpp>
#include <farcall/async/coroutine.hpp>
#include <farcall/async/future.hpp>
#include <farcall/async/task.hpp>
#include <farcall/call/invoke.hpp>

#include <utility>

/// Support for handlers that return a future or a task. The reply to the call is sent when the
/// result of the future or task is ready. Until then, the call takes no thread and no stack.
namespace farcall {
namespace detail {

/// Sends the result of a future once it is ready, or a timeout at its deadline.
template <class T>
class send_when_ready final : public am::continuation {
 public:
  /// Defers the reply of the request, unless the constructor throws. Throws std::bad_alloc and, for
  /// a future with a deadline, std::system_error.
  send_when_ready(future<T> from, am::request_context& request)
      : from_(std::move(from)), timed_(future_access::state(from_), future_access::deadline(from_)),
        context_(current_context()), to_(request.defer()) {}

  /// Starts to wait for the future; call once. The object may be deleted on return.
  void begin() noexcept { timed_.begin(future_access::state(from_), *this); }

  void run() noexcept override {
    (void)timed_.end(future_access::state(from_), nullptr);
    to_.send([this](am::request_context& request) {
      const context_scope scope(context_);
      try {
        run_and_reply<T>(request, [this]() -> T { return future_access::get_now(from_); });
      } catch (...) {
        reply_exception(request);
      }
    });
    delete this;
  }

 private:
  future<T> from_;
  ready_or_late timed_; ///< declared after from_, so that timed_ is destroyed before from_
  const call_context* context_;
  am::deferred_reply to_;
};

} // namespace detail

template <class T>
struct later_result<future<T>> {
  using value = T;
  static void give(am::request_context& request, future<T> result) {
    if (!result.valid()) throw error("the handler returned an empty future");
    am::completion* const state = detail::future_access::state(result);
    if (state == nullptr || state->ready()) {
      detail::run_and_reply<T>(request, [&]() -> T { return result.get(); });
      return;
    }
    (new detail::send_when_ready<T>(std::move(result), request))->begin();
  }
};

template <class T>
struct later_result<task<T>> {
  using value = T;
  static void give(am::request_context& request, task<T> result) {
    later_result<future<T>>::give(request, start(std::move(result)));
  }
};

} // namespace farcall
