#pragma once

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

/// Waits that a stop token ends. Not part of farcall.hpp, for the weight of <stop_token>.
///
/// A stop ends the wait of the caller, and nothing else. A call that was not yet made is not sent.
/// One that was made runs on the target, or has run there: the target is told nothing, and its
/// reply is dropped when it comes, as that of a future that was dropped. What the arguments and
/// buffers of such a call need must stay until then.
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

  result_or_stop(future<T> from, am::completion& state)
      : from_(std::move(from)), state_(state), out_(new local_state<T>(state.owner())) {}
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
    if (state_.detach(&arrival_)) {
      arrival_.held = {};
      from_ = {};
    }
    out_->complete(std::move(why));
  }

  future<T> from_;
  am::completion& state_; ///< of from_
  local_state<T>* out_;
  arrival arrival_;
  counted_ptr<result_or_stop> held_by_stop_;
  std::atomic<bool> is_decided_{false};
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
/// before its result is there. When it was requested before, nothing is sent. A wait for space in a
/// full lane does not end by it. Throws what async() throws.
template <stoppable_token S, class F, class... A>
  requires(!detail::is_call_shape<std::remove_cvref_t<F>>)
[[nodiscard]] auto async(const stoppable_node<S>& place, F&& f, A&&... args) {
  using result = decltype(async(place.where(), std::forward<F>(f), std::forward<A>(args)...).get());
  if (place.stop_token().stop_requested())
    return detail::failed_future<result>(detail::cancelled_before_call(place.where().where()));
  return stop_when(async(place.where(), std::forward<F>(f), std::forward<A>(args)...),
                   place.stop_token());
}

/// As post() to the node alone. Throws `cancelled`, and sends nothing, when the stop was requested
/// before; and what post() throws.
template <stoppable_token S, class F, class... A>
void post(const stoppable_node<S>& place, F&& f, A&&... args) {
  if (place.stop_token().stop_requested())
    std::rethrow_exception(detail::cancelled_before_call(place.where().where()));
  post(place.where(), std::forward<F>(f), std::forward<A>(args)...);
}

} // namespace farcall
