#pragma once

#include <farcall/offload/deadline_resume.hpp>
#include <farcall/offload/future.hpp>

#include <coroutine>
#include <type_traits>
#include <utility>

namespace farcall {
namespace detail {

/// Continuations of one event, any number of them, which run in the order in which they came. Part
/// of the event, and guarded as it is.
class many_continuations final : public am::continuation {
 public:
  many_continuations() = default;
  /// Once, before there is any.
  void follow(am::local_completion& event) noexcept;

  /// Arranges for `c` to run once the event is ready; here, at once or behind those that run
  /// already, when it is.
  void attach(am::continuation* c) noexcept;
  /// Takes it back; false when it has run, or another thread is about to run it.
  [[nodiscard]] bool detach(const am::continuation* c) noexcept;

  void run() noexcept override;

 private:
  am::local_completion* event_ = nullptr;
  am::continuation_list waiting_;
  bool has_run_ = false;
};

/// What the copies of a shared future hold.
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

/// A result that many read: the copies of a shared future hold one result, as those of
/// std::shared_future do; future::share() makes the first. Copyable, and cheap to copy.
///
/// Threads may wait for it and read it at the same time, each with a copy of its own. Dropping
/// copies never blocks; what follows still runs. The result lives as long as the last copy. One
/// that outlives its job holds node_failed.
template <class T>
class FARCALL_NODISCARD_CLASS shared_future {
 public:
  shared_future() noexcept = default;
  /// As future::share(), and throws the same.
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

  /// False for one that was made without a future, and for one that was moved from.
  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }

  /// True when get() would not wait, as future::test(). Throws error for an empty one.
  [[nodiscard]] bool test() const {
    require_valid();
    if (state_->ready()) return true;
    detail::poll(*state_);
    return state_->ready() || detail::has_passed(deadline_);
  }

  /// Waits until get() would not. Throws timeout when the deadline of the call passes (see
  /// node::within), and error for an empty one.
  void wait() const {
    require_valid();
    if (!state_->ready()) detail::wait_or_throw(*state_, deadline_);
  }

  /// Waits at most `duration`, as future::wait_for(). Throws error for an empty one.
  [[nodiscard]] bool wait_for(time_limit duration) const {
    require_valid();
    return state_->ready() || detail::wait_for(*state_, duration, deadline_);
  }

  /// The same result with another deadline, as future::within(). Throws error for an empty one.
  [[nodiscard]] shared_future within(time_limit duration) const {
    require_valid();
    shared_future timed(*this);
    timed.deadline_ = deadline_after(duration);
    return timed;
  }

  /// Waits and gives the result, as often as one likes; it stays where it is. Throws what
  /// future::get() throws, the same exception each time.
  std::add_lvalue_reference_t<const T> get() const {
    wait();
    if (state_->failure()) [[unlikely]]
      std::rethrow_exception(state_->failure());
    if constexpr (!std::is_void_v<T>) return *state_->value;
  }

  /// As future::then(): runs `f` with a copy of this, ready, and gives the future of its result.
  /// Any number of them, in their order. Throws error for an empty one.
  template <class F>
  auto then(F f) const;

  /// What follows runs on `where`, which must outlive it; see future::via(). This one stays as it
  /// is. Throws error for an empty one.
  template <class E>
  [[nodiscard]] auto via(E& where) const;

  /// For `co_await`, which gives what get() does; as that of a future.
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
  /// A future that the continuation completes which `make_task` makes of this and its state.
  template <class U, class MakeTask>
  [[nodiscard]] future<U> follow(const MakeTask& make_task) const;

  detail::shared_state<T>* state_ = nullptr;
  time_point deadline_ = no_deadline;
};

namespace detail {

/// Keeps a copy, so that the result lives until the coroutine goes on.
template <class T>
class shared_awaiter final : public am::continuation {
 public:
  explicit shared_awaiter(shared_future<T> f) noexcept : future_(std::move(f)) {}
  shared_awaiter(const shared_awaiter&) = delete;
  shared_awaiter& operator=(const shared_awaiter&) = delete;
  ~shared_awaiter() override {
    // A coroutine that is destroyed while it waits must not be resumed.
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
  deadline_resume timed_; ///< with a deadline; ends before the future
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
    // Not by a continuation: inside another one it would come only after this one.
    detail::complete_with(*state_, [&] { return from.get(); });
    return;
  }
  // Each copy has a deadline of its own.
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
