// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>

namespace farcall::gpu {

/// Throws std::runtime_error if a call of CUDA's runtime has failed.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

/// Zeroed, pinned memory that the device uses at the same address.
template <class T>
class pinned {
 public:
  explicit pinned(std::size_t count = 1) : count_(count) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&memory_), count * sizeof(T),
                        cudaHostAllocMapped | cudaHostAllocPortable),
          "pinning memory");
    for (std::size_t i = 0; i < count; ++i)
      memory_[i] = T{};
  }
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned() { (void)cudaFreeHost(memory_); }
  [[nodiscard]] T* get() const noexcept { return memory_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  T* operator->() const noexcept { return memory_; }
  T& operator*() const noexcept { return *memory_; }

 private:
  T* memory_ = nullptr;
  std::size_t count_;
};

/// Memory of the device.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t count) {
    check(cudaMalloc(reinterpret_cast<void**>(&memory_), count * sizeof(T)),
          "allocating memory of the device");
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { (void)cudaFree(memory_); }
  [[nodiscard]] T* get() const noexcept { return memory_; }

 private:
  T* memory_ = nullptr;
};

/// A stream that is not synchronised with other streams.
class own_stream {
 public:
  own_stream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  ~own_stream() { (void)cudaStreamDestroy(stream_); }
  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "waiting for a stream"); }

 private:
  cudaStream_t stream_ = nullptr;
};

} // namespace farcall::gpu
