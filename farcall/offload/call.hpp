#pragma once

#include <farcall/call/caller.hpp>
#include <farcall/offload/future.hpp>
#include <farcall/offload/later_results.hpp>
#include <farcall/offload/node.hpp>

#include <type_traits>
#include <utility>

namespace farcall {

class timed_lane;

/// An ordered stream of calls to one node, with a worker of its own there: calls of one lane run
/// one after the other, calls of different lanes side by side. Without one, every thread of the
/// program has a lane to every node by itself. Move-only; closes after its last call has ended,
/// when the next lane is opened or ends. Any thread may use it; the first that does so uses it at
/// full speed.
class lane {
 public:
  /// Opens a lane. Where the node has none left, waits until one that was closed is taken back.
  /// Throws node_failed, and error when all are open.
  explicit lane(const node& where);
  /// The same; throws timeout, too, when it has waited until the deadline.
  explicit lane(const timed_node& where);
  lane(lane&& other) noexcept : where_(other.where_), lane_(std::exchange(other.lane_, nullptr)) {}
  lane& operator=(lane&& other) noexcept {
    std::swap(where_, other.where_);
    std::swap(lane_, other.lane_);
    return *this;
  }
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane();

  /// The node that it leads to.
  [[nodiscard]] const node& where() const noexcept { return where_; }
  /// This lane with a deadline, like node::within(): for one call, its wait for space and its
  /// result. Refers to this object. Never fails.
  [[nodiscard]] timed_lane within(time_limit duration) const noexcept;
  /// It was moved from.
  [[nodiscard]] bool is_empty() const noexcept { return lane_ == nullptr; }
  /// For the library itself: what sends the messages.
  [[nodiscard]] am::requester& messages() const noexcept { return *lane_; }

 private:
  node where_;
  am::requester* lane_ = nullptr;
};

/// A lane and a point in time; see lane::within(). Refers to the lane. A value: any thread may use
/// its own copy, while the lane is there.
class timed_lane {
 public:
  /// Calls in `by` have to be done by `deadline`.
  timed_lane(const lane& by, time_point deadline) noexcept : by_(&by), deadline_(deadline) {}
  /// The lane.
  [[nodiscard]] const lane& by() const noexcept { return *by_; }
  /// When its time is over.
  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }

 private:
  const lane* by_;
  time_point deadline_;
};

inline timed_lane lane::within(time_limit duration) const noexcept {
  return {*this, deadline_after(duration)};
}

template <>
inline constexpr bool detail::is_bound_to_node<lane> = true;
template <>
inline constexpr bool detail::is_bound_to_node<timed_lane> = true;

namespace detail {

/// What a place that calls can go to comes down to.
struct call_place {
  job_core& job;
  am::requester& messages;
  time_point deadline;
};

[[noreturn]] void throw_no_node();
[[noreturn]] void throw_no_lane();

inline call_place place_of(const node& n) {
  if (n.job() == nullptr) [[unlikely]]
    throw_no_node();
  return {*n.job(), n.job()->client->lane_to(n.id()), no_deadline};
}
inline call_place place_of(const timed_node& t) {
  const node& n = t.where();
  if (n.job() == nullptr) [[unlikely]]
    throw_no_node();
  return {*n.job(), n.job()->client->lane_to(n.id(), t.deadline()), t.deadline()};
}
inline call_place place_of(const lane& l) {
  if (l.is_empty()) [[unlikely]]
    throw_no_lane();
  return {*l.where().job(), l.messages(), no_deadline};
}

inline call_place place_of(const timed_lane& t) {
  call_place p = place_of(t.by());
  p.deadline = t.deadline();
  return p;
}

template <class Place>
concept place = requires(const Place& p) { place_of(p); };

/// Its place_of(), wherever that is declared.
template <class Place>
[[nodiscard]] call_place find_place(const Place& p) {
  return place_of(p);
}

/// A call that is of no use to its caller after a deadline: its target can be told.
template <class Place>
[[nodiscard]] bool is_to_be_stopped(const call_place& p) noexcept {
  if constexpr (std::is_same_v<Place, timed_node> || std::is_same_v<Place, timed_lane>) {
    return p.deadline != no_deadline && p.messages.takes_stops();
  } else {
    return false;
  }
}

template <class Place, class F, class... A>
consteval bool is_sound_call_to() {
  if constexpr (place<Place>) {
    return is_sound_call<typename plain_callable<F>::type, A...>();
  } else {
    return false;
  }
}

/// For a call that cannot be made: one compile error that says why not. Returns what the call
/// would.
template <class Place, class F, class... A>
auto explain_call_to() {
  if constexpr (place<Place>) {
    explain_call<typename plain_callable<F>::type, A...>();
  } else {
    static_assert(place<Place>,
                  "farcall: the first argument says where to call: a node, as in "
                  "job.targets().front(), or a lane, or one of these .within(duration).");
  }
  return future<
      typename decltype(result_of_unsound_call<typename plain_callable<F>::type>())::type>();
}

} // namespace detail

/// Calls `f(args...)` on a node, or in a lane, and returns at once with the future of the result.
///
/// `f`: a plain function, fc::fn<function>, a lambda with or without trivially copyable captures,
/// or a functor. Arguments are converted to the parameters' types here and are sent by value. Calls
/// of one thread to one node start in order. Waits only while the lane is full. A node that fails
/// shows in the future; node_failed is thrown only where the calling thread has no lane to it yet.
/// Throws unknown_function, timeout (within()), out_of_memory.
template <class Place, class F, class... A>
  requires(!detail::is_call_shape<std::remove_cvref_t<F>>)
[[nodiscard]] auto async(const Place& place, F&& f, A&&... args) {
  if constexpr (detail::is_sound_call_to<Place, F, A...>()) {
    using caller = detail::caller_for<F, A...>;
    const detail::call_place p = detail::find_place(place);
    am::pending_call* const slot =
        detail::is_to_be_stopped<Place>(p)
            ? caller::template call<detail::call_mode::stoppable>(
                  p.messages, p.job.context, p.deadline, f, std::forward<A>(args)...)
            : caller::template call<detail::call_mode::awaited>(
                  p.messages, p.job.context, p.deadline, f, std::forward<A>(args)...);
    return detail::future_access::make<typename caller::result>(slot, p.deadline);
  } else {
    return detail::explain_call_to<Place, F, A...>();
  }
}

/// Calls and waits for the result. Throws what async() and future::get() throw.
template <class Place, class F, class... A>
auto sync(const Place& place, F&& f, A&&... args) {
  return detail::future_access::get_last(
      async(place, std::forward<F>(f), std::forward<A>(args)...));
}

/// Calls and forgets: no result, and errors are not reported (the target logs them). Throws what
/// async() throws, and node_failed.
template <class Place, class F, class... A>
void post(const Place& place, F&& f, A&&... args) {
  if constexpr (detail::is_sound_call_to<Place, F, A...>()) {
    using caller = detail::caller_for<F, A...>;
    const detail::call_place p = detail::find_place(place);
    (void)caller::template call<detail::call_mode::posted>(p.messages, p.job.context, p.deadline, f,
                                                           std::forward<A>(args)...);
  } else {
    (void)detail::explain_call_to<Place, F, A...>();
  }
}

/// As post(), and false, without effect, where that would have to wait because the lane is full.
/// But for the first call of a thread to a node, which opens a lane, it never waits: for handlers
/// that must not let others run. Throws what post() throws, but for timeout.
template <class Place, class F, class... A>
[[nodiscard]] bool try_post(const Place& place, F&& f, A&&... args) {
  if constexpr (detail::is_sound_call_to<Place, F, A...>()) {
    using caller = detail::caller_for<F, A...>;
    const detail::call_place p = detail::find_place(place);
    return caller::template call<detail::call_mode::tried>(p.messages, p.job.context, p.deadline, f,
                                                           std::forward<A>(args)...);
  } else {
    (void)detail::explain_call_to<Place, F, A...>();
    return false;
  }
}

} // namespace farcall
