// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/deadline_resume.hpp>
#include <farcall/async/future.hpp>
#include <farcall/base/forced_unwind.hpp>

#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

/// Connects futures with coroutines. Any coroutine can `co_await` a future, and a function that
/// returns a future can be a coroutine. Such a coroutine begins at once on the caller's thread, and
/// runs up to its first wait.
namespace farcall {
namespace detail {

template <class T>
class future_awaiter final : public am::continuation {
 public:
  explicit future_awaiter(future<T> f) noexcept : future_(std::move(f)) {}
  future_awaiter(const future_awaiter&) = delete;
  future_awaiter& operator=(const future_awaiter&) = delete;
  ~future_awaiter() override {
    // Detach, because a coroutine that is destroyed while it waits must not be resumed.
    if (attached_) (void)state()->detach(this);
  }

  [[nodiscard]] bool await_ready() { return future_.test(); }
  void await_suspend(std::coroutine_handle<> waiting) {
    if (const time_point deadline = future_access::deadline(future_); deadline != no_deadline) {
      timed_.begin(waiting, *state(), nullptr, deadline);
      return;
    }
    waiting_ = waiting;
    attached_ = true;
    state()->attach(this);
  }
  T await_resume() {
    attached_ = false;
    if (timed_.is_late()) throw_timeout(*state());
    return future_.get();
  }

  void run() noexcept override {
    attached_ = false;
    waiting_.resume();
  }

  [[nodiscard]] am::client* owner() const noexcept {
    return state() != nullptr ? state()->owner() : nullptr;
  }

 private:
  [[nodiscard]] am::completion* state() const noexcept { return future_access::state(future_); }

  future<T> future_;
  deadline_resume timed_; ///< used with a deadline; declared after future_, so that it is destroyed
                          ///< before future_
  std::coroutine_handle<> waiting_;
  bool attached_ = false;
};

template <class T>
class future_promise_base {
 public:
  future<T> get_return_object() { return future_access::make<T>(state_); }
  [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { failure_ = caught_exception(); }

  /// Ends the coroutine: destroys it first, and then completes its future. When a thread has waited
  /// for the future, the coroutine's local variables are therefore destroyed.
  struct end {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      local_state<T>* const state = ended.promise().state_;
      std::exception_ptr failure = std::move(ended.promise().failure_);
      ended.destroy();
      state->complete(std::move(failure));
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] end final_suspend() const noexcept { return {}; }

  /// Notes in the coroutine's own future that it depends on `f`. A thread that waits for the
  /// coroutine's future then takes the replies of the job of `f`. Called before the coroutine
  /// awaits `f`.
  template <class U>
  [[nodiscard]] auto await_transform(future<U>&& f) {
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it loses state_ among coroutine frames
    depend_on(*state_, future_access::state(f));
    return std::move(f).operator co_await();
  }
  template <class U>
  [[nodiscard]] auto await_transform(const shared_future<U>& f) {
    depend_on(*state_, future_access::state(f));
    return f.operator co_await();
  }
  template <class Awaitable>
    requires(!is_shared_future<std::remove_cvref_t<Awaitable>>)
  [[nodiscard]] Awaitable&& await_transform(Awaitable&& a) const noexcept {
    return std::forward<Awaitable>(a);
  }

 protected:
  local_state<T>* state_ = new local_state<T>(nullptr);
  std::exception_ptr failure_;
};

} // namespace detail

template <class T>
auto future<T>::operator co_await() && noexcept {
  return detail::future_awaiter<T>(std::move(*this));
}

template <class T>
class future<T>::promise_type : public detail::future_promise_base<T> {
 public:
  template <class V>
  void return_value(V&& value) {
    this->state_->value.emplace(std::forward<V>(value));
  }
};

template <>
class future<void>::promise_type : public detail::future_promise_base<void> {
 public:
  void return_void() { this->state_->value.emplace(); }
};

} // namespace farcall
