#pragma once

#include <farcall/call/request.hpp>
#include <farcall/offload/future.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/node.hpp>

#include <chrono>
#include <utility>

namespace farcall {

/// An ordered stream of calls to one node, with a worker of its own there: calls of one lane run
/// one after the other, calls of different lanes side by side. Without one, every thread of the
/// program has a lane to every node by itself. Move-only; closes at the next opening or end of a
/// lane after its last call has ended. Any thread may use it; the first that does so uses it at
/// full speed.
class lane {
 public:
  /// Opens a lane. Throws node_failed, or error when the node has no lane left.
  explicit lane(const node& where);
  lane(lane&& other) noexcept : where_(other.where_), lane_(std::exchange(other.lane_, nullptr)) {}
  lane& operator=(lane&& other) noexcept {
    std::swap(where_, other.where_);
    std::swap(lane_, other.lane_);
    return *this;
  }
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane();

  [[nodiscard]] const node& where() const noexcept { return where_; }
  [[nodiscard]] am::lane& messages() const noexcept { return *lane_; }

 private:
  node where_;
  am::lane* lane_ = nullptr;
};

template <>
inline constexpr bool detail::is_bound_to_node<lane> = true;

namespace detail {

/// What a place that calls can go to comes down to.
struct call_place {
  job_state& job;
  am::lane& messages;
  time_point deadline;
};

[[noreturn]] void throw_no_node();

inline call_place place_of(const node& n) {
  if (n.job() == nullptr) [[unlikely]]
    throw_no_node();
  return {*n.job(), n.job()->engine->lane_to(n.id()), no_deadline};
}
inline call_place place_of(const timed_node& t) {
  call_place p = place_of(t.where());
  return {p.job, p.messages, t.deadline()};
}
inline call_place place_of(const lane& l) { return {*l.where().job(), l.messages(), no_deadline}; }

template <class Place>
concept place = requires(const Place& p) { place_of(p); };

template <class Place, class F, class... A>
consteval bool is_sound_call_to() {
  if constexpr (place<Place>) {
    return is_sound_call<typename plain_callable<F>::type, A...>();
  } else {
    return false;
  }
}

/// For a call that cannot be made: one compile error that says why not.
template <class Place, class F, class... A>
void explain_call_to() {
  if constexpr (place<Place>) {
    explain_call<typename plain_callable<F>::type, A...>();
  } else {
    static_assert(place<Place>, "farcall: the first argument says where to call: a node, as in "
                                "job.targets().front(), or node.within(duration), or a lane.");
  }
}

} // namespace detail

/// Calls `f(args...)` on a node, or in a lane, and returns at once with the future of the result.
///
/// `f`: a plain function, fc::fn<function>, a lambda with or without trivially copyable captures,
/// or a functor. Arguments are converted to the parameters' types here and travel by value. Calls
/// of one thread to one node start in order. Waits only while the lane is full. A node that fails
/// shows in the future; node_failed is thrown only where the calling thread has no lane to it yet.
/// Throws unknown_function, timeout (node::within), out_of_memory.
template <class Place, class F, class... A>
  requires(!std::is_same_v<std::remove_cvref_t<F>, grid>)
[[nodiscard]] auto async(const Place& place, F&& f, A&&... args) {
  if constexpr (detail::is_sound_call_to<Place, F, A...>()) {
    using caller = detail::caller_for<F, A...>;
    const detail::call_place p = detail::place_of(place);
    am::call_slot* slot =
        caller::call(p.messages, p.job.context, p.deadline, false, f, std::forward<A>(args)...);
    return detail::future_access::make<typename caller::result>(slot, p.deadline);
  } else {
    detail::explain_call_to<Place, F, A...>();
    return future<void>();
  }
}

/// Launches f as a kernel of its own on a device, for work of the whole device. The future is ready
/// when the kernel has ended. Launches of one thread to one device start in order, beside its other
/// calls. `f` returns nothing, and is a device_fn, in which device::this_grid() tells the threads
/// apart. Takes a launch: some microseconds; see fc::device_fn for what takes less. On ordinary
/// nodes one thread runs f.
template <class Place, class F, class... A>
[[nodiscard]] auto async(const Place& place, const grid& shape, const F& /*f*/, A&&... args) {
  static_assert(detail::is_device_fn<F>,
                "farcall: what is launched as a grid is a function, as fc::device_fn<f>");
  return async(place, on_grid<F>{shape}, std::forward<A>(args)...);
}

/// Calls and waits for the result.
template <class Place, class F, class... A>
auto sync(const Place& place, F&& f, A&&... args) {
  return async(place, std::forward<F>(f), std::forward<A>(args)...).get();
}

/// Calls and forgets: no result, no news of errors (the target logs them). Throws what async()
/// throws, and node_failed.
template <class Place, class F, class... A>
void post(const Place& place, F&& f, A&&... args) {
  if constexpr (detail::is_sound_call_to<Place, F, A...>()) {
    using caller = detail::caller_for<F, A...>;
    const detail::call_place p = detail::place_of(place);
    (void)caller::call(p.messages, p.job.context, p.deadline, true, f, std::forward<A>(args)...);
  } else {
    detail::explain_call_to<Place, F, A...>();
  }
}

} // namespace farcall
