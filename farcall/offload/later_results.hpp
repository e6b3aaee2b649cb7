#pragma once

#include <farcall/am/deferred_reply.hpp>
#include <farcall/call/invoke.hpp>
#include <farcall/offload/coroutine.hpp>
#include <farcall/offload/future.hpp>
#include <farcall/offload/task.hpp>

#include <utility>

/// Handlers that return a future or a task: the result is sent when it is there, and until then the
/// handler takes no thread and no stack.
namespace farcall {
namespace detail {

/// Sends the result of a future once that is ready, or a timeout at its deadline.
template <class T>
class send_when_ready final : public am::continuation {
 public:
  /// The request is deferred if nothing is thrown. Throws std::bad_alloc and, for a future with a
  /// deadline, std::system_error.
  send_when_ready(future<T> from, am::request_context& request)
      : from_(std::move(from)), timed_(future_access::state(from_), future_access::deadline(from_)),
        context_(current_context()), to_(request.defer()) {}

  /// Once. This may be gone on return.
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
  ready_or_late timed_; ///< ends before the future
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
