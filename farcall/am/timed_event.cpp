// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/completion_thread.hpp>
#include <farcall/am/timed_event.hpp>
#include <farcall/base/fork.hpp>

#include <cstdint>

namespace farcall::am {
namespace {

/// Returns the completion thread for events that have no client, or whose engine has ended. Called
/// on the event loop's thread only.
completion_thread& ownerless_continuations() {
  // The thread object is never destroyed, because the event loop's thread lives as long as the
  // process. A forked child makes a new one, since it has none of its parent's threads.
  static completion_thread* it = nullptr;
  static std::uint32_t made_in = 0;
  if (it == nullptr || made_in != fork_generation()) {
    it = new completion_thread(local_completion::doorbell_of_no_client());
    made_in = fork_generation();
  }
  return *it;
}

} // namespace

timed_event::timed_event(client* owner) : loop_(&lasting_event_loop()) {
  if (owner != nullptr) owner_ = engine_of(*owner).weak_from_this();
  loop_->reserve_timer();
}

void timed_event::expire() noexcept {
  const std::shared_ptr<engine> owner = owner_.lock();
  // Do not use the completion thread of an engine that has ended, because it would run the
  // continuations here, on the event loop's thread. A continuation that waits there would block the
  // events of all jobs.
  const bool takes = owner != nullptr && !owner->waiter().completions().has_ended();
  const continuations_elsewhere moved(takes ? owner->other_thread() : ownerless_continuations());
  happen();
}

} // namespace farcall::am
