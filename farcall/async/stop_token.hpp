// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/stop_state.hpp>
#include <farcall/async/call.hpp>
#include <farcall/async/future.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/error.hpp>

#include <atomic>
#include <concepts>
#include <exception>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

/// Calls and waits that end when a stop token requests it. Not part of farcall.hpp, because
/// `<stop_token>` is a large header.
///
/// A stop ends the wait of the caller at once. If the call was made by node::with(), the target is
/// told as well. The target does not run a call that has not begun. A call that has begun finds the
/// stop in stop_token_of_call(). All other operations go on, and their results are dropped, like
/// the result of a dropped future. Memory that the arguments and buffers of a call refer to must
/// live until the call has ended.
namespace farcall {

/// A type of tokens by which a program requests stops. The type is std::stop_token, or a type with
/// the same members. Such a type has a member template `callback_type` in place of
/// std::stop_callback, like stdexec::inplace_stop_token.
template <class S>
concept stoppable_token = std::copy_constructible<S> && requires(const S& s) {
  { s.stop_requested() } -> std::convertible_to<bool>;
  { s.stop_possible() } -> std::convertible_to<bool>;
};

namespace detail {

template <class S, class F>
struct stop_callback_of {
  using type = typename S::template callback_type<F>;
};
// Some standard libraries have the header <stop_token>, but not yet the class std::stop_token.
#ifdef __cpp_lib_jthread
template <class F>
struct stop_callback_of<std::stop_token, F> {
  using type = std::stop_callback<F>;
};
#endif

[[noreturn]] void throw_empty_to_stop();
/// Returns the exception `cancelled` for the wait for `state`. If that exception cannot be made,
/// returns the exception that prevented it.
[[nodiscard]] std::exception_ptr cancelled_wait_for(const am::completion& state) noexcept;
/// Returns the exception `cancelled` for a call that was not made. If that exception cannot be
/// made, returns the exception that prevented it.
[[nodiscard]] std::exception_ptr cancelled_before_call(const node& where) noexcept;

/// Completes the future that stop_when() returns, either with the result of `from_` or, if a stop
/// comes first, with cancelled. Two parties refer to this object until one of them has completed
/// the future: the continuation `arrival_`, which waits for the result, and the stop callback.
/// After a stop, release() must detach `arrival_`. If a stop comes before start() has attached
/// `arrival_`, start() calls release().
template <class T, class S>
class result_or_stop final : public counted {
 public:
  [[nodiscard]] static future<T> start(future<T> from, const S& stop) {
    am::completion& state = *future_access::state(from);
    const time_point deadline = future_access::deadline(from);
    const counted_ptr<result_or_stop> it(new result_or_stop(std::move(from), state));
    future<T> made = future_access::make<T>(it->out_, deadline);
    it->held_by_stop_ = it;
    // Set held_by_stop_ and register the stop callback before `arrival_` is attached, because the
    // arrival of the result resets held_by_stop_.
    it->callback_.emplace(stop, on_stop{&*it});
    it->arrival_.held = it;
    state.attach(&it->arrival_);
    // Acquire-release, paired with the fetch_or in stop(). The later of start() and stop() to set
    // its bit sees the other bit, and calls release().
    if (it->progress_.fetch_or(attached, std::memory_order_acq_rel) == stopped) it->release();
    return made;
  }

 private:
  friend class counted_ptr<result_or_stop>;

  struct on_stop {
    result_or_stop* whose;
    void operator()() const noexcept { whose->stop(); }
  };

  class arrival final : public am::continuation {
   public:
    void run() noexcept override {
      const counted_ptr<result_or_stop> it = std::move(held);
      it->arrive();
    }
    counted_ptr<result_or_stop> held; ///< reference to the state; set while the continuation is
                                      ///< attached
  };

  /// State of the returned future. If a holder gives up the future at its deadline, the state stops
  /// the call.
  class outcome final : public local_state<T> {
   public:
    outcome(am::client* owner, result_or_stop& whose) : local_state<T>(owner), whose_(whose) {}

   private:
    void give_up() noexcept override {
      counted_ptr<result_or_stop> it;
      this->guard().lock();
      // While the outcome is not ready, the thread that will complete it holds a reference to
      // `whose_`. Taking another reference is therefore safe.
      if (!this->ready()) it = counted_ptr<result_or_stop>(&whose_);
      this->guard().unlock();
      if (it) it->stop();
    }

    result_or_stop& whose_;
  };

  result_or_stop(future<T> from, am::completion& state)
      : from_(std::move(from)), state_(state), out_(new outcome(state.owner(), *this)) {}
  ~result_or_stop() = default;

  void arrive() noexcept {
    // Acquire-release, because arrive() and stop() may run at the same time. The first of them
    // completes the future, and the second one does nothing.
    if (is_decided_.exchange(true, std::memory_order_acq_rel)) return;
    held_by_stop_ = {};
    complete_with(*out_, [&] { return from_.get(); });
  }

  void stop() noexcept {
    if (is_decided_.exchange(true, std::memory_order_acq_rel)) return;
    // `it` may be the last reference to this object. Its release then destroys the stop callback
    // while the callback is running, which a stop callback allows on its own thread.
    const counted_ptr<result_or_stop> it = std::move(held_by_stop_);
    std::exception_ptr why = cancelled_wait_for(state_);
    // Acquire-release, paired with the fetch_or in start(), as described there.
    if (progress_.fetch_or(stopped, std::memory_order_acq_rel) == attached) release();
    out_->complete(std::move(why));
  }

  /// Detaches `arrival_` from the future after a stop, and stops the future's call.
  void release() noexcept {
    if (!state_.detach(&arrival_)) return;
    arrival_.held = {};
    future_access::stop(from_);
  }

  static constexpr unsigned char attached = 1;
  static constexpr unsigned char stopped = 2;

  future<T> from_;
  am::completion& state_; ///< state of from_
  local_state<T>* out_;
  arrival arrival_;
  counted_ptr<result_or_stop> held_by_stop_;
  std::atomic<bool> is_decided_{false};
  std::atomic<unsigned char> progress_{0};
  // Declared last, so that it is destroyed before the other members. Another thread may be inside
  // stop() at that time, although the result is already decided. The destructor of the callback
  // waits for that thread.
  std::optional<typename stop_callback_of<S, on_stop>::type> callback_;
};

} // namespace detail

/// Returns a future of the same result, which ends with `cancelled` as soon as `stop` is requested
/// before the result is ready; `from` is then dropped. Works for every future, for example of calls
/// in a lane, of copies and of when_all(). Continuations of a future that a stop ends run inside
/// request_stop(), on the thread that calls it. Keeps the deadline of `from`. Throws error for an
/// empty future, and std::bad_alloc. Like libunifex's stop_when().
template <class T, stoppable_token S>
[[nodiscard]] future<T> stop_when(future<T> from, const S& stop) {
  if (!from.valid()) detail::throw_empty_to_stop();
  const am::completion* const state = detail::future_access::state(from);
  if (state == nullptr || state->ready() || !stop.stop_possible()) return from;
  return detail::result_or_stop<T, S>::start(std::move(from), stop);
}

/// A node with a stop token, and possibly a deadline; see node::with(). A value, like a node: any
/// thread may use it.
template <class S>
class stoppable_node {
 public:
  /// Makes a call target whose calls end when `stop` is requested.
  stoppable_node(const timed_node& where, S stop) : where_(where), stop_(std::move(stop)) {}
  /// Returns the node, with its deadline.
  [[nodiscard]] const timed_node& where() const noexcept { return where_; }
  /// Returns the token that ends the waits for the calls.
  [[nodiscard]] const S& stop_token() const noexcept { return stop_; }

 private:
  timed_node where_;
  S stop_;
};

template <class S>
stoppable_node<S> node::with(S stop) const {
  return {timed_node(*this, no_deadline), std::move(stop)};
}
template <class S>
stoppable_node<S> timed_node::with(S stop) const {
  return {*this, std::move(stop)};
}

/// Calls like async() to the node alone, but the future ends with `cancelled` if the stop is
/// requested before the result is ready. The node is told of the stop: it does not run a call that
/// has not begun, and a call that has begun finds the stop in stop_token_of_call(). If the stop was
/// requested before, the call is not sent. A stop does not end a wait for space in a full lane. On
/// a device the call runs in any case. Throws what async() throws.
template <stoppable_token S, class F, class... A>
  requires(!detail::is_call_shape<std::remove_cvref_t<F>>)
[[nodiscard]] auto async(const stoppable_node<S>& place, F&& f, A&&... args) {
  if constexpr (detail::is_sound_call_to<timed_node, F, A...>()) {
    using caller = detail::caller_for<F, A...>;
    using result = typename caller::result;
    const S& stop = place.stop_token();
    if (stop.stop_requested())
      return detail::failed_future<result>(detail::cancelled_before_call(place.where().where()));
    const detail::call_place p = detail::place_of(place.where());
    if (!stop.stop_possible() || !p.messages.takes_stops())
      return stop_when(async(place.where(), std::forward<F>(f), std::forward<A>(args)...), stop);
    am::pending_call* const slot = caller::template call<detail::call_mode::stoppable>(
        p.messages, p.job.context, p.deadline, f, std::forward<A>(args)...);
    return stop_when(detail::future_access::make<result>(slot, p.deadline), stop);
  } else {
    return detail::explain_call_to<timed_node, F, A...>();
  }
}

/// Calls like post() to the node alone. If the stop was requested before, sends nothing and throws
/// `cancelled`. Throws what post() throws.
template <stoppable_token S, class F, class... A>
void post(const stoppable_node<S>& place, F&& f, A&&... args) {
  if (place.stop_token().stop_requested())
    std::rethrow_exception(detail::cancelled_before_call(place.where().where()));
  post(place.where(), std::forward<F>(f), std::forward<A>(args)...);
}

/// Tells a handler whether a stop of its call was requested. Has the members that C++26 requires of
/// a token (`stoppable_token`), like std::stop_token, so that it can be given to node::with(),
/// stop_when() and receivers of P2300. The token may be kept after the handler has returned, for
/// instance until the code that replies later is done. Once the reply has been sent, no stop
/// reaches the token any more. A value; any thread may use it.
class call_stop_token {
 public:
  /// Makes a token that belongs to no call, so that a stop is never requested.
  call_stop_token() noexcept = default;
  /// Makes the token of the call whose stop state is `state`. For the library itself.
  explicit call_stop_token(counted_ptr<am::stop_state> state) noexcept : state_(std::move(state)) {}

  /// Returns true if a stop was requested.
  [[nodiscard]] bool stop_requested() const noexcept { return state_ && state_->stop_requested(); }
  /// Returns true if the caller can request a stop, or has done so.
  [[nodiscard]] bool stop_possible() const noexcept { return bool(state_); }
  /// Returns true if both tokens are of the same call, or both of none.
  friend bool operator==(const call_stop_token& a, const call_stop_token& b) noexcept {
    return a.state_.get() == b.state_.get();
  }

  /// Calls a function object of type F when a stop is requested, on a thread of farcall. If the
  /// stop was requested before, the constructor calls the function object. If another thread is
  /// calling it, the destructor waits for the end of that call. After the destructor, the function
  /// object is not called any more. F must not throw. Like std::stop_callback.
  template <class F>
  class callback_type final : private am::stop_listener {
   public:
    /// Registers the function object. Throws what the constructor of F throws.
    template <class Init>
      requires std::constructible_from<F, Init>
    explicit callback_type(const call_stop_token& token, Init&& f)
        : state_(token.state_), f_(std::forward<Init>(f)) {
      if (state_ && !state_->add(*this)) stop();
    }
    callback_type(const callback_type&) = delete;
    callback_type& operator=(const callback_type&) = delete;
    ~callback_type() {
      if (state_) state_->remove(*this);
    }

   private:
    void stop() noexcept override { std::forward<F>(f_)(); }

    counted_ptr<am::stop_state> state_;
    F f_;
  };
  /// Deduces F from the constructor's argument. Never fails.
  template <class F>
  callback_type(const call_stop_token&, F) -> callback_type<F>;

 private:
  counted_ptr<am::stop_state> state_;
};

/// Returns, in a handler, the stop token of the handler's call. In a handler that is a coroutine,
/// this works up to its first wait. Outside handlers, and for calls that were made neither with a
/// token that can be stopped nor with a deadline, stop_possible() of the token is false.
[[nodiscard]] call_stop_token stop_token_of_call() noexcept;

} // namespace farcall
