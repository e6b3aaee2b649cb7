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

/// Sends the result of a future once that is ready.
template <class T>
class send_when_ready final : public am::continuation {
 public:
  send_when_ready(future<T> from, am::deferred_reply to) noexcept
      : from_(std::move(from)), to_(std::move(to)), context_(current_context()) {}

  void run() noexcept override {
    to_.send([this](am::request_context& request) {
      const context_scope scope(context_);
      try {
        run_and_reply<T>(request, [this]() -> T { return from_.get(); });
      } catch (...) {
        reply_exception(request);
      }
    });
    delete this;
  }

 private:
  future<T> from_;
  am::deferred_reply to_;
  const call_context* context_;
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
    state->attach(new detail::send_when_ready<T>(std::move(result), request.defer()));
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
