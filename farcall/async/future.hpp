// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/client.hpp>
#include <farcall/async/host_device.hpp>
#include <farcall/async/ready_or_late.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/forced_unwind.hpp>
#include <farcall/call/result.hpp>

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

/// A local event that carries a value.
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

/// Throws error, because futures or buffers of different jobs are used together.
[[noreturn]] void throw_different_jobs();

/// Throws timeout, whose text names the operation that was not done by the deadline.
[[noreturn]] void throw_timeout(const am::completion& event);

/// Waits until `c` is ready. Throws timeout, whose text names the operation that was not done.
void wait_or_throw(am::completion& c, time_point deadline);

/// Waits until `c` is ready. While it waits, the calling thread takes the replies that arrive for
/// the job of `c`. A local event may not know its job, for instance the end of a coroutine that has
/// not awaited a call yet. In this case the thread takes the replies of the process's only job, if
/// there is one; throws error if the process has several jobs. Returns false if the deadline has
/// passed.
[[nodiscard]] bool wait_until(am::completion& c, time_point deadline);
/// Waits until `c` is ready, at most for `duration`, and no longer than until `deadline`. Returns
/// false if `c` is not ready and the deadline has not passed.
[[nodiscard]] bool wait_for(am::completion& c, time_limit duration, time_point deadline);
[[nodiscard]] inline bool has_passed(time_point deadline) noexcept {
  return deadline != no_deadline && clock::now() >= deadline;
}
/// Takes the replies that have arrived, like wait_until(), but without waiting.
void poll(am::completion& c);

/// Releases the reference of a future to `state`. If `state` is a call that is not ready although
/// its deadline has passed, tells the target to stop the call, provided that the target can be
/// told.
void release_state(am::completion& state, time_point deadline) noexcept;
/// Releases a result that was never taken. If the result is an error, it is counted and logged.
void drop(am::completion& state, time_point deadline) noexcept;

struct future_access;

} // namespace detail

/// The result of a call, or of a copy, that may not be ready yet. Move-only.
///
/// While a handler waits for a future, its thread runs other handlers. Destroying a future never
/// blocks. The call or copy of a destroyed future goes on, except that a call whose deadline
/// (node::within) has passed is stopped. A future may be moved to another thread and waited for by
/// that thread. A future that is not ready when its job ends holds node_failed.
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

  /// Returns true if this future has a result, or will have one, that was not taken yet; false if
  /// this future is empty.
  [[nodiscard]] bool valid() const noexcept { return valid_; }

  /// Returns true if get() would not wait, because the result is ready or the deadline has passed.
  /// First takes replies that have arrived. Never blocks. Throws error if this future is empty.
  [[nodiscard]] bool test() {
    require_valid();
    if (state_ == nullptr || state_->ready()) return true;
    detail::poll(*state_);
    return state_->ready() || detail::has_passed(deadline_);
  }

  /// Waits until get() would not wait. Throws timeout when the deadline of the call passes (see
  /// node::within); the future stays valid. Throws error if this future is empty.
  void wait() {
    require_valid();
    if (state_ != nullptr && !state_->ready()) detail::wait_or_throw(*state_, deadline_);
  }

  /// Waits at most `duration`, and no longer than until the deadline. Returns true if get() would
  /// not wait, like test(). Throws error if this future is empty.
  [[nodiscard]] bool wait_for(time_limit duration) {
    require_valid();
    if (state_ == nullptr || state_->ready()) return true;
    return detail::wait_for(*state_, duration, deadline_);
  }

  /// Returns the future with another deadline, which replaces the deadline of the call. wait(),
  /// get() and `co_await` throw timeout when the new deadline has passed. This future is empty
  /// afterwards. Throws error if it was empty before.
  [[nodiscard]] future within(time_limit duration) {
    require_valid();
    deadline_ = deadline_after(duration);
    return std::move(*this);
  }

  /// Waits until the result is ready, and takes it. Throws the exception with which the call has
  /// ended: remote_error with the handler's exception, node_failed, out_of_memory or
  /// malformed_message. Throws timeout like wait().
  T get() { return get(am::reply_count::many); }

  /// Runs `f` with this future once it is ready, and returns the future of the result. If `f`
  /// itself returns a future, its result becomes the result of the returned future. `f` runs on the
  /// thread that takes the reply, or at once; it should be short. This future is empty afterwards.
  /// Throws error if it was empty before; the returned future throws what `f` throws.
  template <class F>
  auto then(F f);

  /// Returns an object whose then() lets the executor `where` run functions, for instance
  /// `f.via(loop).then(g)`. An executor is an object that has `post(function)`, and must outlive
  /// the returned object. This future is empty afterwards. Throws error if it was empty before.
  /// Like folly's `via`.
  template <class E>
  [[nodiscard]] auto via(E& where);

  /// Returns a shared_future of the same result, which any number of holders may wait for and read
  /// in parallel. This future is empty afterwards. Throws error if it was empty before, and
  /// std::bad_alloc.
  [[nodiscard]] shared_future<T> share();

  /// Supports `co_await`. The coroutine resumes on the thread that takes the reply. When a deadline
  /// passes (see within()), the coroutine resumes with timeout on a thread of the library, while
  /// the call or copy goes on. With a deadline, throws std::bad_alloc, and std::system_error if no
  /// thread can be made.
  auto operator co_await() && noexcept;

  class promise_type;

 private:
  friend struct detail::future_access;
  template <class U>
  friend class future;

  /// True if the pending call can be freed as soon as the result has been copied.
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
      if (state_ != nullptr && (state_->is_replied() || (deadline_ == no_deadline &&
                                                         am::spin_for_reply(*state_, expected))))
          [[likely]]
        return take_reply();
    }
    return get_slow();
  }

  /// Takes the result of a call whose reply has arrived.
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
      ~taken() { f.release(); }
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

  /// Releases a result that was never taken.
  void drop() noexcept { detail::drop(*std::exchange(state_, nullptr), deadline_); }

  void release() noexcept {
    valid_ = false;
    detail::release_state(*std::exchange(state_, nullptr), deadline_);
  }

  am::completion* state_ =
      nullptr; ///< state of the result; null if the future is empty, or is ready and void
  time_point deadline_ = no_deadline;
  bool valid_ = false;
};

namespace detail {

/// Access to private members of futures, for the files of this layer.
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
  /// Returns the result of the call that this thread has just made. The thread does not poll for
  /// further replies, because it expects only the reply of this call.
  template <class T>
  static T get_last(future<T> f) {
    return f.get(am::reply_count::one);
  }
  /// Returns the result of a future without waiting, like get(), because the future is known to be
  /// ready or past its deadline. Throws timeout if the future is not ready.
  template <class T>
  static T get_now(future<T>& f) {
    if (f.state_ != nullptr && !f.state_->ready()) [[unlikely]]
      throw_timeout(*f.state_);
    return f.get();
  }
  /// Releases the future's reference. If the call can be stopped, tells its target to stop it.
  template <class T>
  static void stop(future<T>& f) noexcept {
    if (f.state_->source() != nullptr) {
      auto& call = static_cast<am::pending_call&>(*std::exchange(f.state_, nullptr));
      f.valid_ = false;
      call.source()->stop(call);
    } else {
      f.release();
    }
  }
  template <class T>
  static future<T> timed(future<T> f, time_point deadline) noexcept {
    f.deadline_ = deadline;
    return f;
  }
};

/// Returns a future that is ready and holds a value.
template <class T, class... V>
future<T> ready_future(V&&... value) {
  if constexpr (std::is_void_v<T>) {
    return future_access::make<T>(nullptr);
  } else {
    auto* state = new local_state<T>(nullptr);
    state->value.emplace(std::forward<V>(value)...);
    future<T> f = future_access::make<T>(state);
    state->complete_unshared(nullptr);
    return f;
  }
}

/// Returns a future that is ready and throws the exception that `why` holds.
template <class T>
[[nodiscard]] future<T> failed_future(std::exception_ptr why) {
  auto* state = new local_state<T>(nullptr);
  future<T> f = future_access::make<T>(state);
  state->complete_unshared(std::move(why));
  return f;
}

/// Completes `state` with the value that `f` returns, or the exception that it throws.
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

/// Notes that `to` depends on `state`, so that a thread that waits for `to` takes the replies of
/// the job of `state`. Throws error if `to` already belongs to another job, because such a thread
/// takes the replies of one job only.
void depend_on(am::local_completion& to, const am::completion* state);

/// Passes the result of a future, or a timeout at its deadline, to the event `to`.
template <class U>
class forward_result final : public am::continuation {
 public:
  /// Makes the continuation. For a future with a deadline, throws std::bad_alloc and
  /// std::system_error.
  forward_result(future<U> from, local_state<U>& to)
      : from_(std::move(from)), to_(to),
        timed_(future_access::state(from_), future_access::deadline(from_)) {}

  /// Starts to wait for the future; call once. The object may be deleted on return.
  void begin() noexcept { timed_.begin(future_access::state(from_), *this); }

  void run() noexcept override {
    (void)timed_.end(future_access::state(from_), nullptr);
    complete_with(to_, [&] { return future_access::get_now(from_); });
    delete this;
  }

 private:
  future<U> from_;
  local_state<U>& to_;
  ready_or_late timed_; ///< declared after from_, so that timed_ is destroyed before from_
};

/// Runs `c` once `state` is ready. Runs `c` at once if `state` is null, because the future was
/// ready from the start.
void run_when_ready(am::completion* state, am::continuation* c);

/// Continuation that then() attaches to a future or a shared future.
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

/// Returns a future that a continuation completes. `make_task` makes that continuation from `from`
/// and the returned future's state.
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

/// Returns a future that is ready and holds that value. Throws std::bad_alloc, and what moving the
/// value throws.
template <class T>
[[nodiscard]] future<std::decay_t<T>> make_ready_future(T&& value) {
  return detail::ready_future<std::decay_t<T>>(std::forward<T>(value));
}
/// Returns a future of void that is ready. Never fails.
[[nodiscard]] inline future<void> make_ready_future() { return detail::ready_future<void>(); }

} // namespace farcall
