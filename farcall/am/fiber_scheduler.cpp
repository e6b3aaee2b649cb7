// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/stack_state.hpp>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <iterator>
#include <new>
#include <utility>

namespace farcall::am {
namespace {

/// Maximum number of unused fibers that a thread keeps for later handlers; more would only hold
/// memory.
constexpr std::size_t max_idle = 16;

/// Number of fibers that resume_ready() polls in each of two groups: the fibers that were suspended
/// last, and all suspended fibers in turn.
constexpr std::size_t asked_at_once = 8;

std::atomic<unsigned> suspended_in_process{0};

constinit thread_local fiber_scheduler* of_this_thread = nullptr;

} // namespace

fiber_scheduler::fiber_scheduler() noexcept { of_this_thread = this; }

fiber_scheduler::~fiber_scheduler() {
  assert(suspended_.empty());
  if (of_this_thread == this) of_this_thread = nullptr;
}

fiber_scheduler* fiber_scheduler::mine() noexcept { return of_this_thread; }

void fiber_scheduler::leave_thread() noexcept { of_this_thread = nullptr; }

void fiber_scheduler::enter_thread() noexcept { of_this_thread = this; }

std::unique_ptr<fiber> fiber_scheduler::take_fiber() noexcept {
  // Relaxed, because the variable is only a count and orders no other memory access.
  if (suspended_in_process.load(std::memory_order_relaxed) >= max_suspended) return nullptr;
  try {
    // Reserve the memory for the lists now, so that a handler can be suspended later without an
    // allocation that could fail.
    suspended_.reserve(suspended_.size() + running_ + 1);
    waiting_.reserve(suspended_.size() + running_ + 1);
    idle_.reserve(max_idle);
    if (idle_.empty()) return std::make_unique<fiber>();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  std::unique_ptr<fiber> f = std::move(idle_.back());
  idle_.pop_back();
  return f;
}

bool fiber_scheduler::run(fiber::body what, void* argument) noexcept {
  std::unique_ptr<fiber> f = take_fiber();
  if (f == nullptr) return false;
  enter(std::move(f), [&](fiber& entered) {
    this_stack = {};
    return entered.run(what, argument);
  });
  return true;
}

void fiber_scheduler::run_all_queued(fiber_scheduler* fibers) noexcept {
  const auto run_all = [](void* /*argument*/) noexcept { run_queued_continuations(); };
  if (fibers == nullptr || !fibers->run(run_all, nullptr)) run_queued_continuations();
}

template <class Entry>
void fiber_scheduler::enter(std::unique_ptr<fiber> f, const Entry& entry) noexcept {
  fiber* const before = std::exchange(current_, f.get());
  const stack_state own = this_stack;
  ++running_;
  const bool has_returned = entry(*f);
  --running_;
  this_stack = own;
  current_ = before;
  if (!has_returned) {
    waiting_.push_back(std::move(f));
  } else if (idle_.size() < max_idle) {
    idle_.push_back(std::move(f));
  }
}

void fiber_scheduler::wait(wait_condition& c) noexcept {
  fiber& self = *current_;
  c.waiting_ = &self;
  suspended_.push_back(&c);
  suspended_in_process.fetch_add(1, std::memory_order_relaxed);
  const stack_state own = this_stack;
  self.suspend();
  this_stack = own;
}

bool fiber_scheduler::resume_ready() noexcept {
  bool has_resumed = false;
  // The index stays valid even after a resume, because a resumed fiber may append to the list but
  // removes nothing from it.
  for (std::size_t n = 0; n < asked_at_once && n < suspended_.size(); ++n)
    has_resumed |= resume_if_ready(suspended_.size() - 1 - n);
  for (std::size_t n = 0; n < asked_at_once && !suspended_.empty(); ++n) {
    if (next_ >= suspended_.size()) next_ = 0;
    if (resume_if_ready(next_)) {
      has_resumed = true;
    } else {
      ++next_;
    }
  }
  return has_resumed;
}

bool fiber_scheduler::resume_if_ready(std::size_t place) noexcept {
  wait_condition& c = *suspended_[place];
  if (c.poll() != wait_condition::state::over &&
      (c.deadline() == no_deadline || clock::now() < c.deadline())) {
    return false;
  }
  suspended_.erase(suspended_.begin() + static_cast<std::ptrdiff_t>(place));
  suspended_in_process.fetch_sub(1, std::memory_order_relaxed);
  const auto at = std::find_if(waiting_.rbegin(), waiting_.rend(),
                               [&](const auto& f) { return f.get() == c.waiting_; });
  std::unique_ptr<fiber> f = std::move(*at);
  waiting_.erase(std::next(at).base());
  enter(std::move(f), [](fiber& entered) { return entered.resume(); });
  return true;
}

} // namespace farcall::am
