#pragma once

#include <farcall/base/language.hpp>

namespace farcall::am {

/// Code to run when a completion becomes ready. Runs once, with no lock held; owns itself: run()
/// must destroy it.
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

/// Continuations in the order in which their completions became ready. Does not own them.
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
  /// The first, taken out; null when there is none.
  [[nodiscard]] continuation* pop_front() noexcept {
    continuation* const c = first_;
    if (c != nullptr) first_ = c->next_;
    return c;
  }
  /// Takes `c` out; false when it is not in the list.
  bool remove(const continuation& c) noexcept;

 private:
  continuation* first_ = nullptr;
  continuation* last_ = nullptr; ///< if there is a first
};

/// Where the continuations of a thread go that must not run the user's code, because others depend
/// on it.
class continuation_sink {
 public:
  virtual void take(continuation_list due) noexcept = 0;

 protected:
  ~continuation_sink() = default;
};

/// For the time of its life, continuations that would run on the calling thread go to `sink`.
class continuations_elsewhere {
 public:
  explicit continuations_elsewhere(continuation_sink& sink) noexcept;
  continuations_elsewhere(const continuations_elsewhere&) = delete;
  continuations_elsewhere& operator=(const continuations_elsewhere&) = delete;
  ~continuations_elsewhere();
};

/// Queues `due` on the calling thread, which then runs what is queued.
void queue_continuations(continuation_list& due) noexcept;

/// Queues `due` on the calling thread, and runs what is queued there, in order, unless one of them
/// is running already further down on this stack: then they come when that one has returned. So
/// continuations that complete others take no more stack the more of them there are.
void run_continuations(continuation_list due) noexcept;
inline void run_continuation(continuation& c) noexcept {
  continuation_list due;
  due.push_back(c);
  run_continuations(due);
}

/// For a thread that waits inside a continuation, which those behind it must not wait for.
[[nodiscard]] bool has_queued_continuations() noexcept;
/// Runs what is queued on the calling thread, on this very stack.
void run_queued_continuations() noexcept;

/// Takes a continuation that is queued on the calling thread back; false when it is not.
[[nodiscard]] bool take_back(const continuation& c) noexcept;

} // namespace farcall::am
