// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/interrupt.hpp>
#include <farcall/async/ready_or_late.hpp>
#include <farcall/base/kept_blocks.hpp>
#include <farcall/base/log.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/c/function_table.hpp>
#include <farcall/c/future.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace farcall::c {

message_reply result_of(future<message_reply>& ready, fc_function function) {
  try {
    return ready.get();
  } catch (const unknown_function& e) {
    const std::string* const name = function_table::instance().name_of(function);
    throw unknown_function(node_text(e.node()) + " has no function '" +
                               (name != nullptr ? *name : std::to_string(function)) +
                               "'; register it there, with fc_register(), before it is called",
                           e.node());
  }
}

void wait_or_stop(future<message_reply>& call) {
  try {
    call.wait();
  } catch (const am::interrupted&) {
    call = call.within(std::chrono::nanoseconds(0));
    throw;
  }
}

am::completion* state_of(const fc_future& f) noexcept {
  return std::visit([](const auto& p) { return detail::future_access::state(p); }, f.pending);
}

time_point deadline_of(const fc_future& f) noexcept {
  return std::visit([](const auto& p) { return detail::future_access::deadline(p); }, f.pending);
}

void settle(fc_future& f) {
  if (f.is_settled) return;
  std::visit([](auto& p) { p.wait(); }, f.pending);
  f.is_settled = true;
  try {
    if (auto* const call = std::get_if<future<message_reply>>(&f.pending)) {
      f.result = result_of(*call, f.function);
    } else {
      std::get<future<void>>(f.pending).get();
    }
  } catch (...) {
    f.failure = std::current_exception();
  }
}

namespace {

thread_local kept_blocks dropped;

/// Continuation for fc_future_then(). Calls the program's function when the future is ready, or
/// when the deadline of its call has passed.
template <class T>
class call_when_ready final : public farcall::am::continuation {
 public:
  /// Takes the future out of `from`, which is a member of `whose`, and starts the continuation.
  /// Throws std::bad_alloc and, for a future with a deadline, std::system_error; the future then
  /// stays in `from`.
  static void start(future<T>& from, fc_future& whose, fc_continuation run, void* user) {
    detail::ready_or_late timed(detail::future_access::state(from),
                                detail::future_access::deadline(from));
    auto* const made = new call_when_ready(std::move(from), std::move(timed), whose, run, user);
    // Do not use `made` after this call, because another thread may run the continuation at once,
    // which destroys it.
    made->timed_.begin(detail::future_access::state(made->from_), *made);
  }

 private:
  call_when_ready(future<T>&& from, detail::ready_or_late&& timed, fc_future& whose,
                  fc_continuation run, void* user) noexcept
      : from_(std::move(from)), timed_(std::move(timed)), whose_(whose), run_(run), user_(user) {}

  void run() noexcept override {
    (void)timed_.end(detail::future_access::state(from_), nullptr);
    whose_.pending = std::move(from_);
    try {
      run_(&whose_, user_);
    } catch (...) {
      farcall::log::warning("a function given to fc_future_then() threw; the exception is dropped");
    }
    delete this;
  }

  future<T> from_;
  detail::ready_or_late timed_; ///< destroyed before the future
  fc_future& whose_;
  fc_continuation run_;
  void* user_;
};

} // namespace
} // namespace farcall::c

using namespace farcall::c;

void* fc_future::operator new(std::size_t bytes) { return dropped.allocate(bytes); }

void fc_future::operator delete(void* memory) noexcept { dropped.release(memory); }

bool fc_future_test(fc_future* future) {
  bool is_ready = false;
  (void)guarded([&] {
    require(future, "future");
    is_ready = future->is_settled || std::visit([](auto& p) { return p.test(); }, future->pending);
  });
  return is_ready;
}

fc_status fc_future_wait(fc_future* future, int64_t timeout_ns) {
  return guarded_wait([&] {
    require(future, "future");
    if (future->is_settled) return FC_OK;
    if (timeout_ns < 0) {
      std::visit([](auto& p) { p.wait(); }, future->pending);
      return FC_OK;
    }
    const auto duration = std::chrono::nanoseconds(timeout_ns);
    const bool is_over = std::visit([&](auto& p) { return p.wait_for(duration); }, future->pending);
    if (is_over) {
      // Call wait(), because wait_for() also returns true if the deadline of the call has passed.
      // In this case, wait() throws timeout.
      std::visit([](auto& p) { p.wait(); }, future->pending);
      return FC_OK;
    }
    return fail(FC_TIMEOUT, "the future was not ready in time; it can be waited for again");
  });
}

fc_status fc_future_get(fc_future* future, const void** bytes, size_t* size) {
  return guarded_wait([&] {
    require(future, "future");
    settle(*future);
    if (future->failure) std::rethrow_exception(future->failure);
    if (bytes != nullptr) *bytes = future->result.bytes().data();
    if (size != nullptr) *size = future->result.bytes().size();
  });
}

fc_status fc_future_stop(fc_future* future) {
  return guarded([&] {
    require(future, "future");
    if (!future->stop) {
      throw invalid_argument("this future is of nothing that can be stopped; start the call on "
                             "what fc_stoppable() returns");
    }
    // Hold a reference to the stop state during this call, because another thread may be waiting
    // for the future, and may then drop the future.
    const farcall::counted_ptr<farcall::am::stop_state> stop = future->stop;
    stop->request_stop();
  });
}

void fc_future_drop(fc_future* future) { delete future; }

fc_status fc_future_then(fc_future* future, fc_continuation run, void* user) {
  return guarded([&] {
    require(future, "future");
    if (run == nullptr) throw invalid_argument("run must not be NULL");
    if (future->is_settled) {
      run(future, user);
      return;
    }
    std::visit(
        [&]<class T>(farcall::future<T>& p) { call_when_ready<T>::start(p, *future, run, user); },
        future->pending);
  });
}
