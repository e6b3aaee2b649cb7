// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/deadline_resume.hpp>
#include <farcall/async/future.hpp>

#include <coroutine>
#include <type_traits>
#include <utility>

namespace farcall {
namespace detail {

/// Any number of continuations of one event, which run in the order of attach(). A part of the
/// event, protected by the event's guard.
class many_continuations final : public am::continuation {
 public:
  many_continuations() = default;
  /// Attaches this object to the event. Call once, before any attach().
  void follow(am::local_completion& event) noexcept;

  /// Runs `c` once the event is ready. If the event is ready already, this thread runs `c`, either
  /// at once or, if it is inside a continuation, after that continuation.
  void attach(am::continuation* c) noexcept;
  /// Detaches the continuation. Returns false if it has run or another thread is about to run it.
  [[nodiscard]] bool detach(const am::continuation* c) noexcept;

  void run() noexcept override;

 private:
  am::local_completion* event_ = nullptr;
  am::continuation_list waiting_;
  bool has_run_ = false;
};

/// State that the copies of a shared future hold.
template <class T>
class shared_state final : public local_state<T> {
 public:
  explicit shared_state(am::client* owner) : local_state<T>(owner) { continuations.follow(*this); }

  many_continuations continuations;
};

template <class T>
class shared_awaiter;

[[noreturn]] void throw_empty_shared_future();

} // namespace detail

/// A result with many readers, like std::shared_future: all copies of a shared future hold the same
/// result. future::share() makes the first one. Copyable, and cheap to copy.
///
/// Several threads may wait for the result and read it at the same time, each with its own copy.
/// Destroying a copy never blocks, and continuations run even if all copies are destroyed. The
/// result lives as long as the last copy. A shared future that is not ready when its job ends holds
/// node_failed.
template <class T>
class FARCALL_NODISCARD_CLASS shared_future {
 public:
  shared_future() noexcept = default;
  /// Makes a shared future of the result of `from`, like future::share(), and throws the same
  /// exceptions.
  // NOLINTNEXTLINE(google-explicit-constructor): as std::shared_future
  shared_future(future<T>&& from);
  shared_future(const shared_future& other) noexcept
      : state_(other.state_), deadline_(other.deadline_) {
    if (state_ != nullptr) state_->retain();
  }
  shared_future(shared_future&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), deadline_(other.deadline_) {}
  shared_future& operator=(shared_future other) noexcept {
    std::swap(state_, other.state_);
    std::swap(deadline_, other.deadline_);
    return *this;
  }
  ~shared_future() {
    if (state_ != nullptr) state_->release();
  }

  /// Returns false if this shared future was made without a future, or was moved from.
  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }

  /// Returns true if get() would not wait, like future::test(). Throws error if this is empty.
  [[nodiscard]] bool test() const {
    require_valid();
    if (state_->ready()) return true;
    detail::poll(*state_);
    return state_->ready() || detail::has_passed(deadline_);
  }

  /// Waits until get() would not wait. Throws timeout when the deadline of the call passes (see
  /// node::within), and error if this is empty.
  void wait() const {
    require_valid();
    if (!state_->ready()) detail::wait_or_throw(*state_, deadline_);
  }

  /// Waits at most `duration`, like future::wait_for(). Throws error if this is empty.
  [[nodiscard]] bool wait_for(time_limit duration) const {
    require_valid();
    return state_->ready() || detail::wait_for(*state_, duration, deadline_);
  }

  /// Returns a copy with another deadline, like future::within(). Throws error if this is empty.
  [[nodiscard]] shared_future within(time_limit duration) const {
    require_valid();
    shared_future timed(*this);
    timed.deadline_ = deadline_after(duration);
    return timed;
  }

  /// Waits and returns a reference to the result; may be called any number of times. Throws what
  /// future::get() throws, the same exception each time.
  std::add_lvalue_reference_t<const T> get() const {
    wait();
    if (state_->failure()) [[unlikely]]
      std::rethrow_exception(state_->failure());
    if constexpr (!std::is_void_v<T>) return *state_->value;
  }

  /// Runs `f` with a copy of this shared future once it is ready, and returns the future of the
  /// result, like future::then(). May be called any number of times; the functions run in the order
  /// of the calls. Throws error if this is empty.
  template <class F>
  auto then(F f) const;

  /// Returns an object whose then() has functions run by the executor `where`, which must outlive
  /// the object; see future::via(). This shared future is unchanged. Throws error if this is empty.
  template <class E>
  [[nodiscard]] auto via(E& where) const;

  /// Supports `co_await` like a future, except that the result is the reference that get() returns.
  auto operator co_await() const noexcept;

 private:
  friend struct detail::future_access;
  friend class detail::shared_awaiter<T>;

  template <class S, class E>
  friend class shared_future_via;

  void require_valid() const {
    if (state_ == nullptr) [[unlikely]]
      detail::throw_empty_shared_future();
  }
  /// Returns a future that a continuation completes. `make_task` makes that continuation from this
  /// object and the returned future's state.
  template <class U, class MakeTask>
  [[nodiscard]] future<U> follow(const MakeTask& make_task) const;

  detail::shared_state<T>* state_ = nullptr;
  time_point deadline_ = no_deadline;
};

namespace detail {

/// Keeps a copy of the shared future, so that the result lives until the coroutine is resumed.
template <class T>
class shared_awaiter final : public am::continuation {
 public:
  explicit shared_awaiter(shared_future<T> f) noexcept : future_(std::move(f)) {}
  shared_awaiter(const shared_awaiter&) = delete;
  shared_awaiter& operator=(const shared_awaiter&) = delete;
  ~shared_awaiter() override {
    // Detach, because a coroutine that is destroyed while it waits must not be resumed.
    if (attached_) (void)future_.state_->continuations.detach(this);
  }

  [[nodiscard]] bool await_ready() const { return future_.test(); }
  void await_suspend(std::coroutine_handle<> waiting) {
    if (future_.deadline_ != no_deadline) {
      timed_.begin(waiting, *future_.state_, &future_.state_->continuations, future_.deadline_);
      return;
    }
    waiting_ = waiting;
    attached_ = true;
    future_.state_->continuations.attach(this);
  }
  std::add_lvalue_reference_t<const T> await_resume() {
    attached_ = false;
    if (timed_.is_late()) throw_timeout(*future_.state_);
    return future_.get();
  }

  void run() noexcept override {
    attached_ = false;
    waiting_.resume();
  }

 private:
  shared_future<T> future_;
  deadline_resume timed_; ///< used with a deadline; declared after future_, so that it is destroyed
                          ///< before future_
  std::coroutine_handle<> waiting_;
  bool attached_ = false;
};

} // namespace detail

template <class T>
shared_future<T>::shared_future(future<T>&& from) {
  if (!from.valid()) throw error("an empty future cannot be shared");
  am::completion* const source = detail::future_access::state(from);
  deadline_ = detail::future_access::deadline(from);
  state_ = new detail::shared_state<T>(source != nullptr ? source->owner() : nullptr);
  if (source == nullptr || source->ready()) {
    // If the future is ready, complete the state at once instead of by a continuation. This
    // constructor may be called inside a continuation, and a continuation that is attached there
    // would run only after that one has returned.
    detail::complete_with(*state_, [&] { return from.get(); });
    return;
  }
  // Remove the deadline, because each copy of the shared future has its own deadline.
  (new detail::forward_result<T>(detail::future_access::timed(std::move(from), no_deadline),
                                 *state_))
      ->begin();
}

template <class T>
template <class U, class MakeTask>
future<U> shared_future<T>::follow(const MakeTask& make_task) const {
  require_valid();
  auto* to = new detail::local_state<U>(state_->owner());
  future<U> made = detail::future_access::make<U>(to, deadline_);
  state_->continuations.attach(make_task(*this, *to));
  return made;
}

template <class T>
template <class F>
auto shared_future<T>::then(F f) const {
  static_assert(std::is_invocable_v<F&, shared_future<T>>,
                "farcall: then() takes a function of the shared future that is ready, as in "
                "[](fc::shared_future<T> ready) { return ready.get() + 1; }");
  using result = typename detail::unwrapped<std::invoke_result_t<F&, shared_future<T>>>::type;
  return follow<result>([&](const shared_future& self, detail::local_state<result>& to) {
    return new detail::then_task<shared_future, F, result>(self, std::move(f), to);
  });
}

template <class T>
auto shared_future<T>::operator co_await() const noexcept {
  return detail::shared_awaiter<T>(*this);
}

template <class T>
shared_future<T> future<T>::share() {
  return shared_future<T>(std::move(*this));
}

} // namespace farcall
