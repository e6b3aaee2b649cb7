#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace farcall::cuda {

/// Words of pinned memory that a GPU writes when it has come to a point of a stream, without a
/// kernel. Members are called with the GPU selected.
class stream_writes {
 public:
  /// Asks what the GPU can. Throws error.
  void begin(int device);
  /// `word` gets `value` when all that is in the stream now is done, and what that has written is
  /// seen by whoever sees it. Does not wait. Throws error, also for a stream that is captured.
  void add(cudaStream_t stream, std::uint64_t* word, std::uint64_t value) const;

 private:
  decltype(&cuStreamWriteValue64) write_ = nullptr; ///< null where a thread of CUDA's has to write
};

} // namespace farcall::cuda
