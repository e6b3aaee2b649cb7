#pragma once

#include <bench/gpu/launch_variants.hpp>

#include <farcall/offload/node.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall::tool {

/// What of the benchmarks is code for GPUs: bench_gpu.cu, which is part of the command where it was
/// built with CUDA's compiler. Devices go by their numbers, and have to be idle.
struct gpu_code {
  /// Makes one call of each function that is called on devices. Throws timeout when one is not
  /// answered.
  void (*try_out)(const node& target);
  /// As gpu::time_flags_over_bus().
  std::vector<double> (*time_flags)(std::uint32_t device, std::size_t samples, std::size_t trips);
  /// As gpu::visit_launches().
  void (*visit_launches)(std::uint32_t device, const gpu::launch_visitor& visit);
};

/// Set before main(); null in a command without code for GPUs.
extern const gpu_code* linked_gpu_code;

/// The code, or usage_problem that says how to get a command that has it.
[[nodiscard]] const gpu_code& code_for_gpus();

} // namespace farcall::tool
