// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/interrupt.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/base/kept_blocks.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/c/taken_calls.hpp>
#include <farcall/offload/serving.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace farcall::c {
namespace {

thread_local kept_blocks replied;

/// Place for a call that the thread's own fc_take() has received, so that the call need not pass
/// through the queue.
struct receiver {
  taken_call* received = nullptr;
  bool is_taking = false;
};
constinit thread_local receiver own;

constexpr const char* too_late = "no call has come in time for fc_take()";

} // namespace

taken_call::taken_call(fc_function function, void* user, message& m)
    : fc_reply(m.request().defer(), m.request().owner(), counted_ptr(am::this_stack.stop)) {
  const std::span<const std::byte> bytes = m.payload();
  const std::byte* kept = bytes.data();
  if (m.request().in_ring()) {
    if (bytes.size() > sizeof near)
      copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
    std::byte* const to = bytes.size() > sizeof near ? copy.get() : near;
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    kept = to;
  } else {
    // Long bytes are in mapped memory of the caller, which is valid until the reply, or in a copy.
    copy.reset(m.request().take_arguments());
  }
  m.request().release();
  auto& job = static_cast<detail::job_state&>(*m.request().context()->job);
  told = {this, kept, bytes.size(), function, user, handle_of(job)};
}

void* taken_call::operator new(std::size_t bytes) { return replied.allocate(bytes); }

void taken_call::operator delete(void* memory) noexcept { replied.release(memory); }

taken_calls& taken_calls::instance() {
  // Never destroyed, because calls may arrive until the process ends.
  static auto* const all = new taken_calls;
  return *all;
}

void taken_calls::push(std::unique_ptr<taken_call> call) {
  if (own.is_taking && own.received == nullptr && is_empty()) {
    own.received = call.release();
    return;
  }
  {
    const std::lock_guard guard(mutex_);
    (last_ == nullptr ? first_ : last_->next) = call.get();
    last_ = call.release();
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  if (detail::job_state* const job = served()) {
    job->engine->workers().pulled()->notify();
  } else {
    came_.notify_one();
  }
}

taken_call* taken_calls::pop() noexcept {
  if (own.received != nullptr) return std::exchange(own.received, nullptr);
  if (is_empty()) return nullptr;
  const std::lock_guard guard(mutex_);
  taken_call* const found = first_;
  if (found == nullptr) return nullptr;
  first_ = found->next;
  if (first_ == nullptr) last_ = nullptr;
  count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  return found;
}

/// Waits until a call has come, or until this process serves a job in take(). Returns false if the
/// deadline has passed before. Throws interrupted.
bool taken_calls::wait_for_call(time_point deadline) {
  am::interruption interrupts;
  for (;;) {
    const time_point next = std::min(deadline, interrupts.next_poll());
    {
      std::unique_lock guard(mutex_);
      const auto has_come = [&] { return first_ != nullptr || served() != nullptr; };
      if (next == no_deadline) {
        came_.wait(guard, has_come);
        return true;
      }
      if (came_.wait_until(guard, next, has_come)) return true;
    }
    interrupts.ask_if_due();
    if (next == deadline) return false;
  }
}

fc_status taken_calls::take(time_point deadline, fc_taken& call) {
  using outcome = am::pulled_worker::outcome;
  for (;;) {
    if (taken_call* const found = pop()) {
      call = found->told;
      return FC_OK;
    }
    detail::job_state* const job = served();
    if (job == nullptr) {
      if (!wait_for_call(deadline)) return fail(FC_TIMEOUT, too_late);
      continue;
    }
    struct taking {
      taking() noexcept { own.is_taking = true; }
      taking(const taking&) = delete;
      taking& operator=(const taking&) = delete;
      ~taking() { own.is_taking = false; }
    };
    const auto has_come = [](void* all) noexcept {
      return own.received != nullptr || !static_cast<const taken_calls*>(all)->is_empty();
    };
    const outcome got = [&] {
      const taking here;
      return detail::serve_part(*job, has_come, this, deadline);
    }();
    if (got == outcome::holds) continue;
    if (got == outcome::late) return fail(FC_TIMEOUT, too_late);
    return fail(FC_ENDED, "the job has ended; call fc_serve_close()");
  }
}

void taken_calls::clear() {
  while (taken_call* const left = pop())
    delete left;
}

} // namespace farcall::c

using namespace farcall;
using namespace farcall::c;

fc_status fc_serve_open(int socket, fc_job** job) {
  return guarded([&] {
    require(job, "job");
    if (taken_calls::instance().served() != nullptr)
      throw error("this process serves a job already; end that with fc_serve_close() first");
    detail::job_state* const joined = detail::open_served_job(socket);
    taken_calls::instance().serve_in_take(joined);
    *job = joined == nullptr ? nullptr : handle_of(*joined);
  });
}

fc_status fc_serve_close(fc_job* job) {
  return guarded([&] {
    require(job, "job");
    taken_calls& calls = taken_calls::instance();
    detail::job_state* const served = calls.served();
    if (served == nullptr || handle_of(*served) != job)
      throw invalid_argument("this job does not come from fc_serve_open()");
    calls.serve_in_take(nullptr);
    calls.clear();
    detail::close_served_job(*served);
  });
}

fc_status fc_take(int64_t timeout_ns, fc_taken* call) {
  return guarded_wait([&] {
    require(call, "call");
    return taken_calls::instance().take(deadline_in(timeout_ns), *call);
  });
}
