// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/coroutine.hpp>
#include <farcall/async/future.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/forced_unwind.hpp>

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace farcall {

template <class T>
class task;

namespace detail {

template <class T>
class task_promise_base {
 public:
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { failure_ = caught_exception(); }

  /// Resumes the coroutine that awaits the task. Uses no stack if the compiler optimises sibling
  /// calls (-O2).
  struct end {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    [[nodiscard]] std::coroutine_handle<>
    await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      return ended.promise().awaiting_;
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] end final_suspend() const noexcept { return {}; }

  void set_awaiting(std::coroutine_handle<> who) noexcept { awaiting_ = who; }
  [[nodiscard]] stored<T> take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(*value_);
  }

 protected:
  std::coroutine_handle<> awaiting_;
  std::optional<stored<T>> value_;
  std::exception_ptr failure_;
};

template <class T>
class task_promise final : public task_promise_base<T> {
 public:
  [[nodiscard]] task<T> get_return_object() noexcept;
  template <class V>
  void return_value(V&& value) {
    this->value_.emplace(std::forward<V>(value));
  }
};

template <>
class task_promise<void> final : public task_promise_base<void> {
 public:
  [[nodiscard]] task<void> get_return_object() noexcept;
  void return_void() { value_.emplace(); }
};

} // namespace detail

/// A coroutine that begins when another coroutine awaits it, or start() is called. If a handler
/// returns a task, the task's result becomes the result of the call. A task costs only the memory
/// of its frame, and only another coroutine can wait for it, like P1056's lazy task. In contrast, a
/// coroutine that returns a future begins at once, and any thread can wait for it. Move-only; a
/// task that was never begun runs no code. Used by one thread at a time.
template <class T>
class [[nodiscard]] task {
 public:
  using promise_type = detail::task_promise<T>; ///< for the compiler

  /// For the compiler.
  explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
  task(task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  task& operator=(task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  task(const task&) = delete;
  task& operator=(const task&) = delete;
  ~task() {
    if (frame_) frame_.destroy();
  }

  /// Runs the task. When the task has ended, the awaiting coroutine is resumed on the thread that
  /// ended it. Returns the task's result, or throws what the task threw. May be awaited once:
  /// throws error for a task that was moved from or awaited before.
  [[nodiscard]] auto operator co_await() && {
    if (!frame_) throw error("this task is empty: it was moved from, or awaited before");
    struct awaiter {
      task awaited;
      [[nodiscard]] bool await_ready() const noexcept { return false; }
      [[nodiscard]] std::coroutine_handle<>
      await_suspend(std::coroutine_handle<> awaiting) const noexcept {
        awaited.frame_.promise().set_awaiting(awaiting);
        return awaited.frame_;
      }
      T await_resume() const {
        if constexpr (std::is_void_v<T>) {
          (void)awaited.frame_.promise().take();
        } else {
          return awaited.frame_.promise().take();
        }
      }
    };
    return awaiter{std::move(*this)};
  }

  /// Returns the task with a deadline: `co_await` throws timeout when the deadline has passed. The
  /// operations of the task then go on, and the task keeps its frame until it ends. Throws
  /// std::bad_alloc.
  [[nodiscard]] task within(time_limit duration) &&;

 private:
  std::coroutine_handle<promise_type> frame_;
};

template <class T>
task<T> detail::task_promise<T>::get_return_object() noexcept {
  return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}
inline task<void> detail::task_promise<void>::get_return_object() noexcept {
  return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

/// Begins a task on the calling thread, and runs it up to its first wait. Returns the future of its
/// result. Throws std::bad_alloc.
template <class T>
[[nodiscard]] future<T> start(task<T> t) {
  co_return co_await std::move(t);
}

namespace detail {

template <class T>
task<T> until(task<T> t, time_point deadline) {
  future<T> begun = start(std::move(t));
  co_return co_await future_access::timed(std::move(begun), deadline);
}

} // namespace detail

template <class T>
task<T> task<T>::within(time_limit duration) && {
  return detail::until(std::move(*this), deadline_after(duration));
}

} // namespace farcall
