// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

namespace farcall::am {

/// Code to run when a completion becomes ready. A continuation runs once, with no lock held. It
/// owns itself, so run() must destroy it.
class continuation {
 public:
  continuation() = default;
  continuation(const continuation&) = delete;
  continuation& operator=(const continuation&) = delete;
  virtual ~continuation() = default;
  virtual void run() noexcept = 0;

 private:
  friend class continuation_list;
  continuation* next_ = nullptr;
};

/// List of continuations in the order in which their completions became ready. Does not own its
/// elements.
class continuation_list {
 public:
  [[nodiscard]] bool is_empty() const noexcept { return first_ == nullptr; }

  void push_back(continuation& c) noexcept {
    c.next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = &c;
    last_ = &c;
  }
  void append(continuation_list& others) noexcept {
    if (others.is_empty()) return;
    (first_ == nullptr ? first_ : last_->next_) = others.first_;
    last_ = others.last_;
    others.first_ = nullptr;
  }
  /// Removes and returns the first continuation. Returns null if the list is empty.
  [[nodiscard]] continuation* pop_front() noexcept {
    continuation* const c = first_;
    if (c != nullptr) first_ = c->next_;
    return c;
  }
  /// Removes `c` from the list. Returns false if `c` is not in the list.
  bool remove(const continuation& c) noexcept;

 private:
  continuation* first_ = nullptr;
  /// Last continuation of the list; valid only if first_ is not null.
  continuation* last_ = nullptr;
};

/// Receiver of the continuations of a thread that must not run the user's code, because other
/// threads depend on that thread.
class continuation_sink {
 public:
  virtual void take(continuation_list due) noexcept = 0;

 protected:
  ~continuation_sink() = default;
};

/// While this object exists, continuations that would run on the calling thread are given to `sink`
/// instead.
class continuations_elsewhere {
 public:
  explicit continuations_elsewhere(continuation_sink& sink) noexcept;
  continuations_elsewhere(const continuations_elsewhere&) = delete;
  continuations_elsewhere& operator=(const continuations_elsewhere&) = delete;
  ~continuations_elsewhere();
};

/// Appends the continuations `due` to the calling thread's queue without running them. If a
/// continuations_elsewhere object exists on this thread, gives them to its continuation_sink
/// instead. Afterwards `due` is empty.
void queue_continuations(continuation_list& due) noexcept;

/// Queues `due` like queue_continuations() and runs the calling thread's queue in order. If a
/// continuation is running further down on the same stack, returns at once, and the queue runs
/// after that continuation has returned. A chain of continuations that complete each other thereby
/// takes constant stack space.
void run_continuations(continuation_list due) noexcept;
inline void run_continuation(continuation& c) noexcept {
  continuation_list due;
  due.push_back(c);
  run_continuations(due);
}

/// True if continuations are queued on the calling thread. A thread that waits inside a
/// continuation uses it, because the wait must not delay the queued continuations.
[[nodiscard]] bool has_queued_continuations() noexcept;
/// Runs the continuations in the calling thread's queue on the current stack.
void run_queued_continuations() noexcept;

/// Removes a continuation from the calling thread's queue. Returns false if the queue does not
/// contain it.
[[nodiscard]] bool take_back(const continuation& c) noexcept;

} // namespace farcall::am
