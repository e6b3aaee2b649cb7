// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace farcall::cuda {

/// Writes words of pinned memory when a GPU reaches a certain point of a stream, without a kernel.
/// The GPU must be selected in all calls.
class stream_writes {
 public:
  /// Determines which kinds of writes the GPU supports. Throws error.
  void begin(int device);
  /// Writes `value` to `word` when all work that is now in the stream is done. A thread that sees
  /// the value also sees that work's writes. Does not wait. Throws error, also if the stream is
  /// being captured.
  void add(cudaStream_t stream, std::uint64_t* word, std::uint64_t value) const;

 private:
  /// Driver function that writes; null if a thread of CUDA has to write instead.
  decltype(&cuStreamWriteValue64) write_ = nullptr;
};

} // namespace farcall::cuda
