#pragma once

#include <farcall/call/bitwise.hpp>
#include <farcall/call/invoke.hpp>
#include <farcall/gpu/device_fn.hpp>
#include <farcall/gpu/grid.hpp>

#include <cstdint>

/// Launches that are no kernels on a GPU: a device's way to see to the program's own streams.
namespace farcall::detail {

/// What when() launches. On threads it has its turn among the launches; on a GPU it is a write in
/// the stream whose handle it is given.
inline void stream_reached(std::uint64_t /*stream*/) {}

/// What wait_event() launches. On a GPU the lane waits for the event whose handle it is given; on
/// threads there are no events.
inline void event_passed(std::uint64_t /*event*/) {}

/// A function as what is launched, with a handle of CUDA's as its argument.
template <auto Function>
struct stream_call {
  using callable = on_grid<device_fn_t<Function, device_use::scalar>>;
  using far = remote_call<callable, void, std::uint64_t>;
  using launch = device_launch<device_fn_t<Function, device_use::scalar>, void, std::uint64_t>;
};

/// Where the handle lies in the arguments of each.
inline constexpr std::size_t stream_handle_offset =
    bitwise_layout<stream_call<&stream_reached>::callable, std::uint64_t>::offset(1);

} // namespace farcall::detail
