// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/gpu/launch_variants.hpp>

#include <farcall/async/node.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall::tool {

/// The benchmarks' code for GPUs (gpu_code.cu), which is part of commands built with CUDA's
/// compiler. GPUs are passed by number, and must be idle.
struct gpu_code {
  /// Makes one call of each device function. Throws timeout if a reply is missing.
  void (*try_out)(const node& target);
  /// Calls gpu::time_flags_over_bus().
  std::vector<double> (*time_flags)(std::uint32_t device, std::size_t samples, std::size_t trips);
  /// Calls gpu::visit_launches().
  void (*visit_launches)(std::uint32_t device, const gpu::launch_visitor& visit);
};

/// Set before main(); null in a command without code for GPUs.
extern const gpu_code* linked_gpu_code;

/// Returns the code; throws usage_problem, which says how to get a command with it, if there is
/// none.
[[nodiscard]] const gpu_code& code_for_gpus();

} // namespace farcall::tool
