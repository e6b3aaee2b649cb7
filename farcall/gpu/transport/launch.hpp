#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::cuda {

/// How large a launch is.
struct launch_shape {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 256; ///< of a block
  std::uint32_t shared_bytes = 0;
};

/// What a launch is on a GPU. Devices of threads run all of them as functions.
enum class launch_kind : std::uint8_t {
  kernel,
  stream_write, ///< no kernel: `done_value` is written in the program's stream `handle`
  /// No kernel either, and nothing says that it is done: launches behind it on the stream begin
  /// when the program's event `handle` has completed, and `gate` gets `gate_value` then.
  event_wait,
};

/// An ordinary kernel's launch, whose last block says that all is done by one store.
struct launch_plan {
  launch_shape shape;
  std::uint32_t node = 0;
  const std::byte* arguments = nullptr; ///< packed; read before the launch returns
  std::uint32_t bytes = 0;
  std::uint64_t* done = nullptr; ///< gets `done_value`, in memory of the host
  std::uint64_t done_value = 0;
  std::uint32_t* blocks_done = nullptr; ///< of the device; zero before and after
  void* stream = nullptr;               ///< a GPU's
  launch_kind kind = launch_kind::kernel;
  std::uint64_t handle = 0;      ///< CUDA's, for what is no kernel
  std::uint64_t* gate = nullptr; ///< in memory of the host
  std::uint64_t gate_value = 0;
};

/// Launches; null, or why that was not possible. The text lives for ever.
using launcher = const char* (*)(const launch_plan& plan);

/// Streams that lanes share, each lane staying with one.
inline constexpr std::uint32_t launch_streams = 8;

/// Launches of one lane that can be under way, of all kinds.
inline constexpr std::uint32_t most_launches = 64;

} // namespace farcall::cuda
