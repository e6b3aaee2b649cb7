// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/completion.hpp>
#include <farcall/am/dropped_errors.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/live_clients.hpp>

namespace farcall::am {
namespace {

constinit doorbell of_no_client;

} // namespace

void completion::attach(continuation* c) noexcept {
  // Retain the event, because another thread may run the continuation `c`, which releases the
  // event, while this thread still uses the event's guard.
  auto* const event = lane_ == nullptr ? static_cast<local_completion*>(this) : nullptr;
  if (event != nullptr) event->retain();
  guard_->lock();
  const bool now = ready();
  if (!now) {
    then_ = c;
    become(state::noted);
  }
  guard_->unlock();
  if (now) run_continuation(*c);
  if (event != nullptr) event->release();
}

bool completion::detach(const continuation* c) noexcept {
  guard_->lock();
  const bool was_attached = then_ == c;
  if (was_attached) then_ = nullptr;
  guard_->unlock();
  return was_attached || take_back(*c);
}

void local_completion::bind(client& owner) noexcept {
  // Hold the guard, as for all state that complete() reads.
  guard().lock();
  owner_.store(&owner, std::memory_order_relaxed);
  guard().unlock();
}

doorbell& local_completion::doorbell_of_no_client() noexcept { return of_no_client; }

bool local_completion::wait_without_client(time_point deadline) noexcept {
  armed_doorbell wakes{&of_no_client};
  while (!ready() && clock::now() < deadline) {
    // Run queued continuations before sleeping, because the code that completes the awaited event
    // may itself be a continuation that is queued on this thread.
    if (has_queued_continuations()) {
      run_queued_continuations();
      continue;
    }
    arm({&wakes, 1});
    if (!ready()) sleep_on({&wakes, 1}, deadline);
  }
  return ready();
}

void local_completion::complete(std::exception_ptr failure) noexcept {
  // Check for a dropped error before the event becomes ready, because afterwards a holder may take
  // the error and release the event.
  if (failure && references_.load(std::memory_order_relaxed) == 1) note_dropped_error(failure);
  guard().lock();
  failure_ = std::move(failure);
  continuation* then = mark_ready();
  client* const whose = owner();
  guard().unlock();
  if (live_clients::has(whose)) engine_of(*whose).waiter().notify();
  // Notify the doorbell of events without a client, even if the event has a client by now. A thread
  // that began to wait before bind() set the client sleeps on this doorbell.
  notify_if_armed(of_no_client);
  if (then != nullptr) run_continuation(*then);
  release();
}

} // namespace farcall::am
