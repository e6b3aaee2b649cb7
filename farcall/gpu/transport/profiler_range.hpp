#pragma once

#include <cstdint>

namespace farcall::cuda {

/// What a profiler shows of the calling thread's use of CUDA, from here to the end of the scope, in
/// the domain "farcall" of NVTX. Costs a load and a branch while no profiler is attached, and is
/// nothing where CUDA's headers have no NVTX.
class profiler_range {
 public:
  /// `what` lives as long as the range; `bytes` is shown beside it, unless it is 0.
  explicit profiler_range(const char* what, std::uint64_t bytes = 0) noexcept;
  profiler_range(const profiler_range&) = delete;
  profiler_range& operator=(const profiler_range&) = delete;
  ~profiler_range();
};

} // namespace farcall::cuda
