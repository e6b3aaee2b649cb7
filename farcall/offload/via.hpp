#pragma once

#include <farcall/base/counted.hpp>
#include <farcall/offload/shared_future.hpp>

#include <atomic>
#include <exception>
#include <type_traits>
#include <utility>

namespace farcall {

/// Runs functions elsewhere, or later: an event loop, a thread pool. `post(f)` takes a copyable
/// function without parameters, and has it run once. If all copies of it go without that, what
/// follows ends with an error.
template <class E>
concept executor = requires(E& e, void (*f)()) { e.post(f); };

namespace detail {

/// Says that an executor has not run a function, or what prevented that.
[[nodiscard]] std::exception_ptr dropped_by_executor() noexcept;

/// Held by the copies of the function that an executor gets, the last of which ends the future with
/// an error if none was run.
template <class Task, class U>
class posted_once final : public counted {
 public:
  explicit posted_once(local_state<U>& to) noexcept : to_(to) {}
  posted_once(const posted_once&) = delete;
  posted_once& operator=(const posted_once&) = delete;
  ~posted_once() {
    if (task_.load(std::memory_order_relaxed) != nullptr) fail(dropped_by_executor());
  }

  /// Before it is posted.
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
  /// Acquire-release: the thread that takes it sees what other threads did to it.
  [[nodiscard]] Task* take() noexcept { return task_.exchange(nullptr, std::memory_order_acq_rel); }

  std::atomic<Task*> task_{nullptr};
  local_state<U>& to_;
};

/// then() of a future or a shared future whose function an executor runs.
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

/// A future together with the executor that what follows it runs on; see future::via(). Used by one
/// thread at a time.
template <class T, class E>
class future_via {
 public:
  /// For future::via().
  future_via(future<T> from, E& where) noexcept : from_(std::move(from)), where_(&where) {}

  /// As future::then(), but the executor runs `f`. When posting throws, the returned future throws
  /// that.
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
  /// For shared_future::via().
  shared_future_via(shared_future<T> from, E& where) noexcept
      : from_(std::move(from)), where_(&where) {}

  /// As shared_future::then(), but the executor runs `f`. When posting throws, the returned future
  /// throws that.
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
