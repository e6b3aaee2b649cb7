// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace farcall::cuda {

/// A range that profilers show for the calling thread's use of CUDA. It lasts from the constructor
/// to the end of the scope, and is in the NVTX domain "farcall". If no profiler is attached, it
/// costs a load and a branch. If CUDA's headers lack NVTX, it has no effect.
class profiler_range {
 public:
  /// `what` is the range's name, and must live as long as the range. Profilers show `bytes` next to
  /// the name, unless it is 0.
  explicit profiler_range(const char* what, std::uint64_t bytes = 0) noexcept;
  profiler_range(const profiler_range&) = delete;
  profiler_range& operator=(const profiler_range&) = delete;
  ~profiler_range();
};

} // namespace farcall::cuda
