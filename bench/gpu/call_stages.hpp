#pragma once

#include <farcall/gpu/transport/executor.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace farcall::gpu {

/// What a call of a function that does nothing is made of, in nanoseconds.
struct call_stages {
  /// From the host's first store to its sight of the answer.
  std::vector<double> round_trip;
  /// By the multiprocessor's clock, between one stage of the worker and the next.
  std::array<std::vector<double>, cuda::worker_stages - 1> between;
};

/// Calls a worker of the current device that has nothing else of farcall around it: the host's side
/// writes and reads slots. The device has to be idle. CUDA's errors, and a device that does not
/// answer, are std::runtime_error.
[[nodiscard]] call_stages time_call_stages(std::size_t samples);

} // namespace farcall::gpu
