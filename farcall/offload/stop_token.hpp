#pragma once

#include <farcall/am/stop_state.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/error.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/future.hpp>

#include <atomic>
#include <concepts>
#include <exception>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

/// Calls and waits that a stop token ends. Not part of farcall.hpp: `<stop_token>` is heavy.
///
/// A stop ends the wait of the caller at once. Of a call that was made by node::with(), the target
/// is told as well: what has not begun there is not run, and what has begun finds the stop in
/// stop_token_of_call(). Whatever else a future stands for goes on, and its result is dropped when
/// it comes, as that of a future that was dropped. What the arguments and buffers of a call need
/// must stay until then.
namespace farcall {

/// What tells of requests to stop: std::stop_token, or any with its members and, in place of
/// std::stop_callback, a member template `callback_type` (as stdexec::inplace_stop_token).
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
// Not every standard library has it yet, even where it has the header.
#ifdef __cpp_lib_jthread
template <class F>
struct stop_callback_of<std::stop_token, F> {
  using type = std::stop_callback<F>;
};
#endif

[[noreturn]] void throw_empty_to_stop();
/// A cancelled for the wait for `state`, or what prevented it; and for a call that was not made.
[[nodiscard]] std::exception_ptr cancelled_wait_for(const am::completion& state) noexcept;
[[nodiscard]] std::exception_ptr cancelled_before_call(const node& where) noexcept;

/// The result of a future, or cancelled: whichever comes first. Held by each of the two until then.
/// A stop before `arrival_` is attached leaves it to start() to let go of the future.
template <class T, class S>
class result_or_stop final : public counted {
 public:
  [[nodiscard]] static future<T> start(future<T> from, const S& stop) {
    am::completion& state = *future_access::state(from);
    const time_point deadline = future_access::deadline(from);
    const counted_ptr<result_or_stop> it(new result_or_stop(std::move(from), state));
    future<T> made = future_access::make<T>(it->out_, deadline);
    it->held_by_stop_ = it;
    // Before the result may come, and take it away again.
    it->callback_.emplace(stop, on_stop{&*it});
    it->arrival_.held = it;
    state.attach(&it->arrival_);
    // Acquire-release; partner: that in stop(). One of the two sees the other.
    if (it->progress_.fetch_or(attached, std::memory_order_acq_rel) == stopped) it->let_go();
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
    counted_ptr<result_or_stop> held; ///< from when it is attached
  };

  /// Who gives the future up at its deadline stops the call.
  class outcome final : public local_state<T> {
   public:
    outcome(am::client* owner, result_or_stop& whose) : local_state<T>(owner), whose_(whose) {}

   private:
    void give_up() noexcept override {
      counted_ptr<result_or_stop> it;
      this->guard().lock();
      // Until it is ready, somebody has yet to complete it, and holds it.
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
    // Acquire-release: the loser leaves everything to the winner.
    if (is_decided_.exchange(true, std::memory_order_acq_rel)) return;
    held_by_stop_ = {};
    complete_with(*out_, [&] { return from_.get(); });
  }

  void stop() noexcept {
    if (is_decided_.exchange(true, std::memory_order_acq_rel)) return;
    // It may be the last, and end this callback, which this thread may do from inside.
    const counted_ptr<result_or_stop> it = std::move(held_by_stop_);
    std::exception_ptr why = cancelled_wait_for(state_);
    // Acquire-release; partner: that in start().
    if (progress_.fetch_or(stopped, std::memory_order_acq_rel) == attached) let_go();
    out_->complete(std::move(why));
  }

  /// After a stop.
  void let_go() noexcept {
    if (!state_.detach(&arrival_)) return;
    arrival_.held = {};
    future_access::stop(from_);
  }

  static constexpr unsigned char attached = 1;
  static constexpr unsigned char stopped = 2;

  future<T> from_;
  am::completion& state_; ///< of from_
  local_state<T>* out_;
  arrival arrival_;
  counted_ptr<result_or_stop> held_by_stop_;
  std::atomic<bool> is_decided_{false};
  std::atomic<unsigned char> progress_{0};
  // Last, so that it ends first: its end waits for a stop() on another thread, which has lost.
  std::optional<typename stop_callback_of<S, on_stop>::type> callback_;
};

} // namespace detail

/// The same result, or `cancelled` as soon as `stop` is requested while it is not there: then
/// `from` is dropped. For the result of anything: calls in a lane, copies, when_all(). What follows
/// a stop runs on the thread that requests it, inside request_stop(). Keeps the deadline of `from`.
/// Throws error for an empty future, and std::bad_alloc. As libunifex's stop_when().
template <class T, stoppable_token S>
[[nodiscard]] future<T> stop_when(future<T> from, const S& stop) {
  if (!from.valid()) detail::throw_empty_to_stop();
  const am::completion* const state = detail::future_access::state(from);
  if (state == nullptr || state->ready() || !stop.stop_possible()) return from;
  return detail::result_or_stop<T, S>::start(std::move(from), stop);
}

/// A node, perhaps with a deadline, and a stop token; see node::with(). A value, as a node is: any
/// thread may use it.
template <class S>
class stoppable_node {
 public:
  /// What is started on `where` ends when `stop` is requested.
  stoppable_node(const timed_node& where, S stop) : where_(where), stop_(std::move(stop)) {}
  /// The node, with its deadline.
  [[nodiscard]] const timed_node& where() const noexcept { return where_; }
  /// What ends the waits.
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

/// As async() to the node alone, whose future ends with `cancelled` when the stop is requested
/// before its result is there. The node is told: a call that has not begun there is not run, and
/// one that has finds the stop in stop_token_of_call(). When it was requested before, nothing is
/// sent. A wait for space in a full lane does not end by it. On a device a call runs in any case.
/// Throws what async() throws.
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

/// As post() to the node alone. Throws `cancelled`, and sends nothing, when the stop was requested
/// before; and what post() throws.
template <stoppable_token S, class F, class... A>
void post(const stoppable_node<S>& place, F&& f, A&&... args) {
  if (place.stop_token().stop_requested())
    std::rethrow_exception(detail::cancelled_before_call(place.where().where()));
  post(place.where(), std::forward<F>(f), std::forward<A>(args)...);
}

/// Tells a handler of a stop of the call that it runs for. As std::stop_token, with the members
/// that C++26 asks of a token (`stoppable_token`), so it can be given to node::with(), stop_when()
/// and receivers of P2300. It may be kept beyond the handler, as by a future or a reply that comes
/// later; once the call has answered, it tells of nothing new. A value; any thread may use it.
class call_stop_token {
 public:
  /// Of no call: a stop is never requested.
  call_stop_token() noexcept = default;
  /// For the library itself: of the call with that state.
  explicit call_stop_token(counted_ptr<am::stop_state> state) noexcept : state_(std::move(state)) {}

  /// A stop was requested.
  [[nodiscard]] bool stop_requested() const noexcept { return state_ && state_->stop_requested(); }
  /// The caller can request one, or has done so.
  [[nodiscard]] bool stop_possible() const noexcept { return bool(state_); }
  /// Of the same call, or both of none.
  friend bool operator==(const call_stop_token& a, const call_stop_token& b) noexcept {
    return a.state_.get() == b.state_.get();
  }

  /// Calls an F when a stop is requested, on a thread of farcall's or, when it was requested
  /// before, in its constructor; not once it is destroyed, which waits for a call on another
  /// thread. The F must not throw. As std::stop_callback.
  template <class F>
  class callback_type final : private am::stop_listener {
   public:
    /// Throws what making the F throws.
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
  /// The F is that of what it is made with. Never fails.
  template <class F>
  callback_type(const call_stop_token&, F) -> callback_type<F>;

 private:
  counted_ptr<am::stop_state> state_;
};

/// In a handler: tells of a stop of the call that it runs for. For a handler that is a coroutine,
/// up to its first wait. Outside handlers, and for calls that were made neither with a token that
/// can be stopped nor with a deadline, one whose stop_possible() is false.
[[nodiscard]] call_stop_token stop_token_of_call() noexcept;

} // namespace farcall
