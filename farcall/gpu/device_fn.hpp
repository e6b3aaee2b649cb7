// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/call/callable.hpp>

#include <type_traits>
#include <utility>

namespace farcall {

/// Number of threads that run a function on a device.
enum class device_use {
  scalar, ///< one thread of a team runs the function
  /// One thread runs the function, which writes no memory, so that its reply is sent without a
  /// fence.
  pure,
  team, ///< all threads of a team run the function; the result is the first thread's
};

/// A callable for a function that has code for devices as well. It runs on nodes of every kind.
template <auto Function, device_use Use>
struct device_fn_t {
  /// Calls the function directly, on the calling thread alone.
  template <class... A>
  FARCALL_HOST_DEVICE constexpr decltype(auto) operator()(A&&... a) const {
    return Function(std::forward<A>(a)...);
  }
};

/// Names a function for calls to devices: `async(node, fc::device_fn<f>, x)`. For CUDA's compiler,
/// f must be marked __host__ __device__. Its parameters and result must be trivially copyable.
template <auto Function>
inline constexpr device_fn_t<Function, device_use::scalar> device_fn{};
/// Like device_fn, for a function that writes no memory. Its reply is sent sooner, because no fence
/// is needed.
template <auto Function>
inline constexpr device_fn_t<Function, device_use::pure> pure_fn{};
/// Like device_fn, for a function that all threads of a team run together. See device::this_team().
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
