#pragma once

#include <farcall/call/callable.hpp>
#include <farcall/offload/host_device.hpp>

#include <type_traits>
#include <utility>

namespace farcall {

/// Who runs a function on a device.
enum class device_use {
  scalar, ///< one thread of a team
  pure,   ///< the same; it changes no memory, so its reply waits for none
  team,   ///< all threads of a team; the result is the first one's
};

/// A function that has code for devices as well, as a callable. Runs on every kind of node.
template <auto Function, device_use Use>
struct device_fn_t {
  /// Calls the function here, on this thread alone.
  template <class... A>
  FARCALL_HOST_DEVICE constexpr decltype(auto) operator()(A&&... a) const {
    return Function(std::forward<A>(a)...);
  }
};

/// `async(node, fc::device_fn<f>, x)`: f is marked __host__ __device__ where CUDA's compiler reads
/// it, and takes and returns what is trivially copyable.
template <auto Function>
inline constexpr device_fn_t<Function, device_use::scalar> device_fn{};
/// The same for a function that writes nothing, whose reply comes sooner.
template <auto Function>
inline constexpr device_fn_t<Function, device_use::pure> pure_fn{};
/// The same for a function that all threads of a team run: see device::this_team().
template <auto Function>
inline constexpr device_fn_t<Function, device_use::team> team_fn{};

namespace detail {

template <auto Function, device_use Use, class... A>
struct signature_of<device_fn_t<Function, Use>, A...> : signature_of<fn_t<Function>, A...> {};
template <auto Function, device_use Use>
inline constexpr bool is_fn<device_fn_t<Function, Use>> = true;

template <class F>
inline constexpr bool is_device_fn = false;
template <auto Function, device_use Use>
inline constexpr bool is_device_fn<device_fn_t<Function, Use>> = true;

template <class F>
inline constexpr device_use use_of = device_use::scalar;
template <auto Function, device_use Use>
inline constexpr device_use use_of<device_fn_t<Function, Use>> = Use;

} // namespace detail
} // namespace farcall
