// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/future.hpp>
#include <farcall/async/later_results.hpp>
#include <farcall/async/node.hpp>
#include <farcall/call/caller.hpp>

#include <type_traits>
#include <utility>

namespace farcall {

class timed_lane;

/// An ordered stream of calls to one node, with a worker on that node that serves only this lane.
/// Calls of one lane run one after the other; calls of different lanes run in parallel. Each thread
/// of the program also has a default lane to every node, without a lane object. Move-only.
/// Destroying this object closes the lane if its calls have ended. Otherwise the lane is closed
/// after its last call has ended, when another lane is opened or destroyed. Any thread may use a
/// lane; calls cost least on the first thread that uses it.
class lane {
 public:
  /// Opens a lane. If the node has no free lane, waits until a closed one is reclaimed. Throws
  /// node_failed, and error if all lanes are open.
  explicit lane(const node& where);
  /// Opens a lane with a deadline; also throws timeout if no lane was free until the deadline.
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

  /// Returns the node that the lane leads to.
  [[nodiscard]] const node& where() const noexcept { return where_; }
  /// Returns this lane with a deadline, like node::within(). The deadline limits one call: its wait
  /// for space in the lane, and the wait for its result. The returned object refers to this one,
  /// which must outlive it. Never fails.
  [[nodiscard]] timed_lane within(time_limit duration) const noexcept;
  /// Returns true if this lane was moved from.
  [[nodiscard]] bool is_empty() const noexcept { return lane_ == nullptr; }
  /// Returns the requester of the lane, which sends the lane's messages. For the library itself.
  [[nodiscard]] am::requester& messages() const noexcept { return *lane_; }

 private:
  node where_;
  am::requester* lane_ = nullptr;
};

/// A lane with a deadline; see lane::within(). Refers to the lane, which must outlive this object
/// and its copies. A value: any thread may use its own copy.
class timed_lane {
 public:
  /// Makes a call target whose calls must be done by `deadline`.
  timed_lane(const lane& by, time_point deadline) noexcept : by_(&by), deadline_(deadline) {}
  /// Returns the lane.
  [[nodiscard]] const lane& by() const noexcept { return *by_; }
  /// Returns the deadline.
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

/// Job, requester and deadline of a call target, which is a node or a lane.
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

/// Calls place_of() from a template, so that an overload in a later header is found, too.
template <class Place>
[[nodiscard]] call_place find_place(const Place& p) {
  return place_of(p);
}

/// Returns true if the call has a deadline, and the target can be told to stop the call once the
/// deadline has passed.
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

/// Explains, in one compile error, why a call cannot be made. Has the return type of the call, so
/// that no other errors follow.
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
/// `f` is a plain function, fc::fn<function>, a lambda with or without trivially copyable captures,
/// or a functor. Arguments are converted to the parameters' types by the caller and are sent by
/// value. Calls of one thread to one node start in order. Waits only while the lane is full. If the
/// node fails, the future throws node_failed; async() itself throws node_failed only if the calling
/// thread has no lane to the node yet. Throws unknown_function, timeout (within()), out_of_memory.
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

/// Calls a function and waits for its result. Throws what async() and future::get() throw.
template <class Place, class F, class... A>
auto sync(const Place& place, F&& f, A&&... args) {
  return detail::future_access::get_last(
      async(place, std::forward<F>(f), std::forward<A>(args)...));
}

/// Calls a function, whose result is dropped. Errors are not reported to the caller; the target
/// logs them. Throws what async() throws, and node_failed.
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

/// Calls like post(), but returns false, without effect, if post() would wait because the lane is
/// full. Use it in handlers, because the thread of a handler that waits in post() runs other
/// handlers meanwhile. Never waits, except for the first call of a thread to a node, which opens a
/// lane. Throws what post() throws, except timeout.
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
