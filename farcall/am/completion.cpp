#include <farcall/am/completion.hpp>
#include <farcall/am/dropped_errors.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/live_clients.hpp>

namespace farcall::am {
namespace {

constinit doorbell of_no_client;

} // namespace

void completion::attach(continuation* c) noexcept {
  // Another thread may run `c`, which lets go of the event, before this one has left the guard.
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
  // With the guard, as everything that complete() looks at.
  guard().lock();
  owner_.store(&owner, std::memory_order_relaxed);
  guard().unlock();
}

doorbell& local_completion::doorbell_of_no_client() noexcept { return of_no_client; }

bool local_completion::wait_without_client(time_point deadline) noexcept {
  armed_doorbell wakes{&of_no_client};
  while (!ready() && clock::now() < deadline) {
    // Inside a continuation: one behind it may be what completes the event.
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
  // Before the event is ready: a holder may then take the error, and release the event.
  if (failure && references_.load(std::memory_order_relaxed) == 1) note_dropped_error(failure);
  guard().lock();
  failure_ = std::move(failure);
  continuation* then = mark_ready();
  client* const whose = owner();
  guard().unlock();
  if (live_clients::has(whose)) engine_of(*whose).notify_local();
  // In any case: who began to wait before the event was bound sleeps there.
  notify_if_armed(of_no_client);
  if (then != nullptr) run_continuation(*then);
  release();
}

} // namespace farcall::am
