// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/shared_future.hpp>
#include <farcall/base/counted.hpp>

#include <atomic>
#include <exception>
#include <type_traits>
#include <utility>

namespace farcall {

/// An executor, which runs functions on other threads or at a later time, for example an event loop
/// or a thread pool. `post(f)` takes a copyable function without parameters, and has it run once.
/// If all copies of the function are destroyed before it was run, the future of then() ends with an
/// error.
template <class E>
concept executor = requires(E& e, void (*f)()) { e.post(f); };

namespace detail {

/// Returns the error that an executor has destroyed a function without running it, or the exception
/// that was thrown while the error was made.
[[nodiscard]] std::exception_ptr dropped_by_executor() noexcept;

/// State that all copies of the posted function share. If the executor destroys all copies without
/// running one of them, the destruction of the last copy ends the future with an error.
template <class Task, class U>
class posted_once final : public counted {
 public:
  explicit posted_once(local_state<U>& to) noexcept : to_(to) {}
  posted_once(const posted_once&) = delete;
  posted_once& operator=(const posted_once&) = delete;
  ~posted_once() {
    if (task_.load(std::memory_order_relaxed) != nullptr) fail(dropped_by_executor());
  }

  /// Sets the task; call before the function is posted.
  void set(Task* task) noexcept { task_.store(task, std::memory_order_relaxed); }
  void run() noexcept {
    if (Task* const task = take()) am::run_continuation(*task);
  }
  void fail(std::exception_ptr why) noexcept {
    Task* const task = take();
    if (task == nullptr) return;
    delete task;
    to_.complete(std::move(why));
  }

 private:
  /// Takes the task, so that only one caller runs or deletes it. Returns null for later callers.
  /// Acquire-release, so that the caller sees all that other threads have stored in the task.
  [[nodiscard]] Task* take() noexcept { return task_.exchange(nullptr, std::memory_order_acq_rel); }

  std::atomic<Task*> task_{nullptr};
  local_state<U>& to_;
};

/// Continuation of then() on a future or shared future with an executor. Passes the function of
/// then() to the executor, instead of running it.
template <class From, class F, class U, class E>
class posted_task final : public am::continuation {
 public:
  posted_task(From from, F f, local_state<U>& to, E& where)
      : once_(new posted_once<following, U>(to)), where_(&where) {
    once_->set(new following(std::move(from), std::move(f), to));
  }

  void run() noexcept override {
    try {
      where_->post([once = once_] { once->run(); });
    } catch (...) {
      once_->fail(std::current_exception());
    }
    delete this;
  }

 private:
  using following = then_task<From, F, U>;

  counted_ptr<posted_once<following, U>> once_;
  E* where_;
};

} // namespace detail

/// A future together with the executor that runs its continuations; see future::via(). Used by one
/// thread at a time.
template <class T, class E>
class future_via {
 public:
  /// Used by future::via().
  future_via(future<T> from, E& where) noexcept : from_(std::move(from)), where_(&where) {}

  /// Runs `f` like future::then(), but by the executor. If posting throws, the returned future
  /// throws that exception.
  template <class F>
  auto then(F f) && {
    using result = typename detail::unwrapped<std::invoke_result_t<F&, future<T>>>::type;
    return detail::follow<result>(std::move(from_),
                                  [&](future<T> self, detail::local_state<result>& to) {
                                    return new detail::posted_task<future<T>, F, result, E>(
                                        std::move(self), std::move(f), to, *where_);
                                  });
  }

 private:
  future<T> from_;
  E* where_;
};

/// A shared future together with an executor; see shared_future::via(). Used by one thread at a
/// time.
template <class T, class E>
class shared_future_via {
 public:
  /// Used by shared_future::via().
  shared_future_via(shared_future<T> from, E& where) noexcept
      : from_(std::move(from)), where_(&where) {}

  /// Runs `f` like shared_future::then(), but by the executor. If posting throws, the returned
  /// future throws that exception.
  template <class F>
  auto then(F f) const {
    using from = shared_future<T>;
    using result = typename detail::unwrapped<std::invoke_result_t<F&, from>>::type;
    return from_.template follow<result>([&](const from& self, detail::local_state<result>& to) {
      return new detail::posted_task<from, F, result, E>(self, std::move(f), to, *where_);
    });
  }

 private:
  shared_future<T> from_;
  E* where_;
};

template <class T>
template <class E>
auto future<T>::via(E& where) {
  static_assert(executor<E>, "farcall: via() takes an executor: an object with post(function)");
  require_valid();
  return future_via<T, E>(std::move(*this), where);
}

template <class T>
template <class E>
auto shared_future<T>::via(E& where) const {
  static_assert(executor<E>, "farcall: via() takes an executor: an object with post(function)");
  require_valid();
  return shared_future_via<T, E>(*this, where);
}

} // namespace farcall
