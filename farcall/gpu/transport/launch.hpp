// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::cuda {

/// Size of a launch.
struct launch_shape {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 256; ///< of a block
  std::uint32_t shared_bytes = 0;
};

/// Kind of a launch on a GPU. On emulated devices, kernels and stream writes run as functions of
/// the host, and an event wait ends at once.
enum class launch_kind : std::uint8_t {
  kernel,
  /// Launches no kernel. Instead, the program's stream `handle` writes `done_value` when it has
  /// done the work that was put into it before.
  stream_write,
  /// Launches no kernel, and CUDA does not report the launch's end. Later launches in the lane's
  /// stream begin only when the program's event `handle` has completed. At that time, CUDA also
  /// writes `gate_value` to `gate`.
  event_wait,
};

/// Parameters of one launch. The last block of the kernel reports the launch's end by one store.
struct launch_plan {
  launch_shape shape;
  std::uint32_t node = 0;
  /// Packed arguments; they are read before the launcher returns.
  const std::byte* arguments = nullptr;
  std::uint32_t bytes = 0;
  std::uint64_t* done = nullptr; ///< host memory to which `done_value` is written at the end
  std::uint64_t done_value = 0;
  /// Counter of finished blocks in the device's memory; zero before and after the launch.
  std::uint32_t* blocks_done = nullptr;
  void* stream = nullptr; ///< of a GPU
  launch_kind kind = launch_kind::kernel;
  std::uint64_t handle = 0;      ///< handle of the stream or event, if the launch is no kernel
  std::uint64_t* gate = nullptr; ///< in host memory
  std::uint64_t gate_value = 0;
};

/// Type of a function that makes a launch. It returns null, or the reason if the launch has failed.
/// The text of the reason lives for ever.
using launcher = const char* (*)(const launch_plan& plan);

/// Number of streams that all lanes share. A lane always uses the same stream.
inline constexpr std::uint32_t launch_streams = 8;

/// Maximum number of launches, of all kinds, that can be in flight in a lane.
inline constexpr std::uint32_t max_launches = 64;

} // namespace farcall::cuda
