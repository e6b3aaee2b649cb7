// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/executor.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace farcall::gpu {

/// Stages of a call of a function that does nothing, in nanoseconds.
struct call_stages {
  /// From the host's first store until it sees the reply.
  std::vector<double> round_trip;
  /// Between one stage of the worker and the next, by the multiprocessor's clock.
  std::array<std::vector<double>, cuda::worker_stages - 1> between;
};

/// Calls a worker of the current device without the rest of farcall: the host's side writes and
/// reads slots. The device must be idle. Errors of CUDA, and a device that does not reply, throw
/// std::runtime_error.
[[nodiscard]] call_stages time_call_stages(std::size_t samples);

} // namespace farcall::gpu
