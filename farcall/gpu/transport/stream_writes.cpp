// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/gpu/transport/cuda_calls.hpp>
#include <farcall/gpu/transport/stream_writes.hpp>
#include <farcall/gpu/transport/system_scope.hpp>

#include <memory>

namespace farcall::cuda {
namespace {

struct host_write {
  std::uint64_t* word;
  std::uint64_t value;
};

void write_on_host(void* data) {
  const std::unique_ptr<host_write> w(static_cast<host_write*>(data));
  store_release(w->word, w->value);
}

} // namespace

void stream_writes::begin(int device) {
  if (has_attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
    write_ = reinterpret_cast<decltype(write_)>(find_driver_function("cuStreamWriteValue64"));
}

void stream_writes::add(cudaStream_t stream, std::uint64_t* word, std::uint64_t value) const {
  // cudaStreamPerThread means a stream of the calling thread, which need not be the thread that has
  // passed the stream to farcall. Use the legacy stream instead, because it waits for the streams
  // of all threads.
  if (stream == cudaStreamPerThread) stream = cudaStreamLegacy;
  // Refuse a stream that is being captured. The write would be recorded, and would run each time
  // that the captured graph runs, but not now.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capture), "asking for a stream");
  if (capture != cudaStreamCaptureStatusNone)
    throw error("the stream is being captured, so nothing of it is done");
  if (write_ != nullptr) {
    check_driver(
        write_(stream, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WRITE_VALUE_DEFAULT),
        "writing in a stream");
    return;
  }
  auto task = std::make_unique<host_write>(host_write{word, value});
  check(cudaLaunchHostFunc(stream, &write_on_host, task.get()), "writing in a stream");
  [[maybe_unused]] host_write* const its = task.release();
}

} // namespace farcall::cuda
