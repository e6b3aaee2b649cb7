// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/bitwise.hpp>
#include <farcall/call/invoke.hpp>
#include <farcall/gpu/device_fn.hpp>
#include <farcall/gpu/grid.hpp>

#include <cstdint>

/// Calls that synchronise a lane with the program's own streams. They are handled like launches,
/// but launch no kernel on a GPU.
namespace farcall::detail {

/// Function of the launch by which when() waits for a stream. On an emulated device the function
/// runs after the earlier launches of the lane. On a GPU no function runs. Instead, the stream that
/// the argument names writes a word when the stream's earlier work is done.
inline void stream_reached(std::uint64_t /*stream*/) {}

/// Function of the launch by which wait_event() delays a lane. On a GPU no function runs. Instead,
/// the lane waits for the event that the argument names. Emulated devices have no events.
inline void event_passed(std::uint64_t /*event*/) {}

/// Types by which one of the functions above is launched. The only argument of the launch is the
/// handle of a CUDA object.
template <auto Function>
struct stream_call {
  using callable = on_grid<device_fn_t<Function, device_use::scalar>>;
  using far = remote_call<callable, void, std::uint64_t>;
  using launch = device_launch<device_fn_t<Function, device_use::scalar>, void, std::uint64_t>;
};

/// Offset of the handle in the packed arguments; it is the same for both functions.
inline constexpr std::size_t stream_handle_offset =
    bitwise_layout<stream_call<&stream_reached>::callable, std::uint64_t>::offset(1);

} // namespace farcall::detail
