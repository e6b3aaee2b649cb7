#pragma once

#include <farcall/am/client.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/forced_unwind.hpp>
#include <farcall/call/result.hpp>
#include <farcall/offload/host_device.hpp>
#include <farcall/offload/ready_or_late.hpp>

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace farcall {

template <class T>
class future;
template <class T>
class shared_future;

namespace detail {

template <class T>
using stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
inline constexpr bool is_bound_to_node<future<T>> = true;
template <class T>
inline constexpr bool is_bound_to_node<shared_future<T>> = true;

/// A local event with a value.
template <class T>
class local_state : public am::local_completion {
 public:
  using am::local_completion::local_completion;

  std::optional<stored<T>> value;
};

template <class T>
struct is_future : std::false_type {};
template <class T>
struct is_future<future<T>> : std::true_type {};
template <class T>
inline constexpr bool is_shared_future = false;
template <class T>
inline constexpr bool is_shared_future<shared_future<T>> = true;

/// Futures, or buffers, that are used together.
[[noreturn]] void throw_different_jobs();

/// What waiting for a reply begins with, without a deadline; see am::client. True when it came.
[[nodiscard]] bool spin_for_reply(am::completion& c, am::reply_count expected) noexcept;

/// Says what did not come before the deadline.
[[noreturn]] void throw_timeout(const am::completion& event);

/// Waits; throws timeout that says for what.
void wait_or_throw(am::completion& c, time_point deadline);

/// Waits, and takes in what `c` depends on. A local event may not say what that is, as the end of a
/// coroutine that has awaited nothing of farcall's yet: then the calls of the process's only job,
/// if there is one; throws error when there are several. False when the deadline passed.
[[nodiscard]] bool wait_until(am::completion& c, time_point deadline);
/// Waits at most `duration`, and until `deadline`; false when that has not passed and `c` is not
/// ready.
[[nodiscard]] bool wait_for(am::completion& c, time_limit duration, time_point deadline);
[[nodiscard]] inline bool has_passed(time_point deadline) noexcept {
  return deadline != no_deadline && clock::now() >= deadline;
}
/// As wait_until(), without waiting.
void poll(am::completion& c);

/// Who holds `state` lets go of it. A call that is not ready at its deadline is stopped, if its
/// target can be told.
void let_go_of(am::completion& state, time_point deadline) noexcept;
/// Releases a result that no code has taken; its error is counted and logged.
void drop(am::completion& state, time_point deadline) noexcept;

struct future_access;

} // namespace detail

/// The result of a call, or of a copy, that may not be there yet. Move-only.
///
/// A handler that waits lets its thread run others meanwhile. Dropping a future never blocks; what
/// it stood for goes on, but for a call with a deadline (node::within) that has passed, which is
/// stopped. A future may be moved to another thread and waited for there. One that outlives its job
/// holds node_failed.
template <class T>
class FARCALL_NODISCARD_CLASS future {
 public:
  future() noexcept = default;
  future(future&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), deadline_(other.deadline_),
        valid_(std::exchange(other.valid_, false)) {}
  future& operator=(future&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(deadline_, other.deadline_);
    std::swap(valid_, other.valid_);
    return *this;
  }
  future(const future&) = delete;
  future& operator=(const future&) = delete;
  ~future() {
    if (state_ != nullptr) drop();
  }

  /// True until the result has been taken.
  [[nodiscard]] bool valid() const noexcept { return valid_; }

  /// True when get() would not wait: the result is there, or the deadline has passed. Takes in
  /// replies that have arrived; never blocks. Throws error for an empty future.
  [[nodiscard]] bool test() {
    require_valid();
    if (state_ == nullptr || state_->ready()) return true;
    detail::poll(*state_);
    return state_->ready() || detail::has_passed(deadline_);
  }

  /// Waits until get() would not. Throws timeout when the deadline of the call passes (see
  /// node::within); the future stays valid.
  void wait() {
    require_valid();
    if (state_ != nullptr && !state_->ready()) detail::wait_or_throw(*state_, deadline_);
  }

  /// Waits at most `duration`; true when get() would not wait, as for test(): no longer than until
  /// the deadline. Throws error for an empty future.
  [[nodiscard]] bool wait_for(time_limit duration) {
    require_valid();
    if (state_ == nullptr || state_->ready()) return true;
    return detail::wait_for(*state_, duration, deadline_);
  }

  /// The same result, with a deadline in place of that of the call: wait(), get() and `co_await`
  /// throw timeout when it has passed. This future is empty afterwards. Throws error when it is
  /// already.
  [[nodiscard]] future within(time_limit duration) {
    require_valid();
    deadline_ = deadline_after(duration);
    return std::move(*this);
  }

  /// Waits and takes the result. Throws what the call ended with: remote_error with the handler's
  /// exception, node_failed, out_of_memory, malformed_message; or timeout, as wait() does.
  T get() { return get(am::reply_count::many); }

  /// Runs `f` with this future, ready, once it is; its result is that of the returned future. When
  /// `f` returns a future, that one's result is taken. `f` runs on whichever thread takes the
  /// reply in, or at once; it should be short. This future is empty afterwards. Throws error for
  /// an empty future; what `f` throws is in the returned one.
  template <class F>
  auto then(F f);

  /// What follows runs on `where`, which must outlive it: `f.via(loop).then(g)`. An executor is
  /// anything that has `post(function)`. This future is empty afterwards; throws error when it is
  /// already. As folly's `via`.
  template <class E>
  [[nodiscard]] auto via(E& where);

  /// The same result for any number of holders, who may wait for it and read it side by side; see
  /// shared_future. This future is empty afterwards. Throws error when it is already, and
  /// std::bad_alloc.
  [[nodiscard]] shared_future<T> share();

  /// For `co_await`: resumes on whichever thread takes the reply in; at a deadline (see within()),
  /// with timeout, on one of the library's. What the future stood for goes on then. Throws, when
  /// there is a deadline, std::bad_alloc, and std::system_error when no thread can be had.
  auto operator co_await() && noexcept;

  class promise_type;

 private:
  friend struct detail::future_access;
  template <class U>
  friend class future;

  /// The pending call can be given back as soon as the result has been copied.
  static constexpr bool is_simple = std::is_trivially_copyable_v<detail::stored<T>> &&
                                    std::is_copy_constructible_v<detail::stored<T>> &&
                                    detail::fits_call<detail::stored<T>>;

  explicit future(am::completion* state, time_point deadline = no_deadline) noexcept
      : state_(state), deadline_(deadline), valid_(true) {}

  void require_valid() const {
    if (!valid_) throw error("this future is empty: its result was taken, or it never had a call");
  }

  T get(am::reply_count expected) {
    if constexpr (is_simple) {
      if (state_ != nullptr &&
          (state_->is_replied() ||
           (deadline_ == no_deadline && detail::spin_for_reply(*state_, expected)))) [[likely]]
        return take_reply();
    }
    return get_slow();
  }

  /// Takes the result of a call that has been replied to.
  T take_reply() {
    auto& call = static_cast<am::pending_call&>(*std::exchange(state_, nullptr));
    valid_ = false;
    if constexpr (std::is_void_v<T>) {
      call.source()->free_good_call(call);
    } else {
      const T taken = detail::result_in<T>(call);
      call.source()->free_good_call(call);
      return taken;
    }
  }

  [[gnu::noinline]] T get_slow() {
    wait();
    if constexpr (std::is_void_v<T>) {
      if (state_ == nullptr) {
        valid_ = false;
        return;
      }
    }
    if constexpr (is_simple) {
      // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): only futures of void have no state
      if (state_->is_replied()) return take_reply();
    }
    struct taken {
      future& f;
      ~taken() { f.let_go(); }
    } const t{*this};
    if (state_->failure()) [[unlikely]]
      std::rethrow_exception(state_->failure());
    if constexpr (!std::is_void_v<T>) return std::move(result());
  }

  [[nodiscard]] detail::stored<T>& result() noexcept {
    if (state_->source() != nullptr) {
      return detail::result_in<detail::stored<T>>(static_cast<am::pending_call&>(*state_));
    }
    return *static_cast<detail::local_state<T>&>(*state_).value;
  }

  /// Releases a result that no code has taken.
  void drop() noexcept { detail::drop(*std::exchange(state_, nullptr), deadline_); }

  void let_go() noexcept {
    valid_ = false;
    detail::let_go_of(*std::exchange(state_, nullptr), deadline_);
  }

  am::completion* state_ = nullptr; ///< null and valid: ready, without a value
  time_point deadline_ = no_deadline;
  bool valid_ = false;
};

namespace detail {

/// For the files of this layer.
struct future_access {
  template <class T>
  static future<T> make(am::completion* state, time_point deadline = no_deadline) noexcept {
    return future<T>(state, deadline);
  }
  template <class T>
  static am::completion* state(const future<T>& f) noexcept {
    return f.state_;
  }
  template <class T>
  static am::completion* state(const shared_future<T>& f) noexcept {
    return f.state_;
  }
  template <class T>
  static time_point deadline(const future<T>& f) noexcept {
    return f.deadline_;
  }
  /// get() by the thread that has just made the call.
  template <class T>
  static T get_last(future<T> f) {
    return f.get(am::reply_count::one);
  }
  /// get() of a future that is ready or late, without a wait. Throws timeout, too.
  template <class T>
  static T get_now(future<T>& f) {
    if (f.state_ != nullptr && !f.state_->ready()) [[unlikely]]
      throw_timeout(*f.state_);
    return f.get();
  }
  /// Lets go of it; the target of a call that can be stopped is told.
  template <class T>
  static void stop(future<T>& f) noexcept {
    if (f.state_->source() != nullptr) {
      auto& call = static_cast<am::pending_call&>(*std::exchange(f.state_, nullptr));
      f.valid_ = false;
      call.source()->stop(call);
    } else {
      f.let_go();
    }
  }
  template <class T>
  static future<T> timed(future<T> f, time_point deadline) noexcept {
    f.deadline_ = deadline;
    return f;
  }
};

/// A future that is ready, with a value.
template <class T, class... V>
future<T> ready_future(V&&... value) {
  if constexpr (std::is_void_v<T>) {
    return future_access::make<T>(nullptr);
  } else {
    auto* state = new local_state<T>(nullptr);
    state->value.emplace(std::forward<V>(value)...);
    future<T> f = future_access::make<T>(state);
    state->complete(nullptr);
    return f;
  }
}

/// A future that is ready, and throws what `why` holds.
template <class T>
[[nodiscard]] future<T> failed_future(std::exception_ptr why) {
  auto* state = new local_state<T>(nullptr);
  future<T> f = future_access::make<T>(state);
  state->complete(std::move(why));
  return f;
}

/// Completes `state` with what `f` returns or throws.
template <class U, class F>
void complete_with(local_state<U>& state, F&& f) noexcept {
  try {
    if constexpr (std::is_void_v<U>) {
      f();
      state.value.emplace();
    } else {
      state.value.emplace(f());
    }
  } catch (...) {
    state.complete(caught_exception());
    return;
  }
  state.complete(nullptr);
}

/// `to` becomes ready through `state`, too. Whoever waits for `to` takes in the replies of one job,
/// so both must belong to one. Throws error.
void depend_on(am::local_completion& to, const am::completion* state);

/// Passes the result of a future, or a timeout at its deadline, on to `to`.
template <class U>
class forward_result final : public am::continuation {
 public:
  /// Throws, for a future with a deadline, std::bad_alloc and std::system_error.
  forward_result(future<U> from, local_state<U>& to)
      : from_(std::move(from)), to_(to),
        timed_(future_access::state(from_), future_access::deadline(from_)) {}

  /// Once. This may be gone on return.
  void begin() noexcept { timed_.begin(future_access::state(from_), *this); }

  void run() noexcept override {
    (void)timed_.end(future_access::state(from_), nullptr);
    complete_with(to_, [&] { return future_access::get_now(from_); });
    delete this;
  }

 private:
  future<U> from_;
  local_state<U>& to_;
  ready_or_late timed_; ///< ends before the future
};

/// Runs `c` once `state` is ready; at once for the state of a future that was ready from the start.
void run_when_ready(am::completion* state, am::continuation* c);

/// What then() was given, for a future or a shared future.
template <class From, class F, class U>
class then_task final : public am::continuation {
 public:
  then_task(From from, F f, local_state<U>& to)
      : from_(std::move(from)), f_(std::move(f)), to_(to) {}

  void run() noexcept override {
    using result = std::invoke_result_t<F&, From>;
    if constexpr (is_future<result>::value) {
      try {
        result inner = f_(std::move(from_));
        if (!inner.valid()) throw error("a function given to then() returned an empty future");
        depend_on(to_, future_access::state(inner));
        (new forward_result<U>(std::move(inner), to_))->begin();
      } catch (...) {
        to_.complete(caught_exception());
      }
    } else {
      complete_with(to_, [&] { return f_(std::move(from_)); });
    }
    delete this;
  }

 private:
  From from_;
  F f_;
  local_state<U>& to_;
};

/// A future that the continuation completes which `make_task` makes of `from` and the future's
/// state.
template <class U, class T, class MakeTask>
future<U> follow(future<T> from, const MakeTask& make_task) {
  am::completion* const state = future_access::state(from);
  const time_point deadline = future_access::deadline(from);
  auto* to = new local_state<U>(state != nullptr ? state->owner() : nullptr);
  future<U> made = future_access::make<U>(to, deadline);
  run_when_ready(state, make_task(std::move(from), *to));
  return made;
}

template <class R>
struct unwrapped {
  using type = R;
};
template <class R>
struct unwrapped<future<R>> {
  using type = R;
};

} // namespace detail

template <class T>
template <class F>
auto future<T>::then(F f) {
  static_assert(std::is_invocable_v<F&, future<T>>,
                "farcall: then() takes a function of the future that is ready, as in "
                "[](fc::future<T> ready) { return ready.get() + 1; }");
  using result = typename detail::unwrapped<std::invoke_result_t<F&, future<T>>>::type;
  require_valid();
  return detail::follow<result>(
      std::move(*this), [&](future<T> self, detail::local_state<result>& to) {
        return new detail::then_task<future, F, result>(std::move(self), std::move(f), to);
      });
}

/// A future that is ready, with that value. Throws std::bad_alloc, and what moving the value
/// throws.
template <class T>
[[nodiscard]] future<std::decay_t<T>> make_ready_future(T&& value) {
  return detail::ready_future<std::decay_t<T>>(std::forward<T>(value));
}
/// A future that is ready. Never fails.
[[nodiscard]] inline future<void> make_ready_future() { return detail::ready_future<void>(); }

} // namespace farcall
