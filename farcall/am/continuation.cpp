// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/continuation.hpp>
#include <farcall/am/stack_state.hpp>

#include <utility>

namespace farcall::am {
namespace {

constinit thread_local continuation_list queued;
constinit thread_local continuation_sink* elsewhere = nullptr;

} // namespace

bool continuation_list::remove(const continuation& c) noexcept {
  continuation* before = nullptr;
  for (continuation* at = first_; at != nullptr; before = at, at = at->next_) {
    if (at != &c) continue;
    (before == nullptr ? first_ : before->next_) = at->next_;
    if (last_ == at) last_ = before;
    return true;
  }
  return false;
}

continuations_elsewhere::continuations_elsewhere(continuation_sink& sink) noexcept {
  elsewhere = &sink;
}

continuations_elsewhere::~continuations_elsewhere() { elsewhere = nullptr; }

void queue_continuations(continuation_list& due) noexcept {
  if (due.is_empty()) return;
  if (continuation_sink* const sink = std::exchange(elsewhere, nullptr)) {
    // Clear `elsewhere` while the sink takes the continuations. A sink that has been stopped calls
    // this function again to run the continuations on this thread, and must not get them a second
    // time.
    sink->take(std::exchange(due, {}));
    elsewhere = sink;
    return;
  }
  queued.append(due);
}

void run_continuations(continuation_list due) noexcept {
  queue_continuations(due);
  if (!this_stack.runs_continuations) run_queued_continuations();
}

bool has_queued_continuations() noexcept { return !queued.is_empty(); }

void run_queued_continuations() noexcept {
  const bool before = std::exchange(this_stack.runs_continuations, true);
  // Continuations may wait in destructors, which must not throw.
  const interrupt_check* const interrupt = std::exchange(this_stack.interrupt, nullptr);
  while (continuation* const c = queued.pop_front())
    c->run();
  this_stack.interrupt = interrupt;
  this_stack.runs_continuations = before;
}

bool take_back(const continuation& c) noexcept { return queued.remove(c); }

} // namespace farcall::am
