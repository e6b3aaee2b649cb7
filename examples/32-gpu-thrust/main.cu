// SPDX-License-Identifier: Apache-2.0

// Thrust between calls: its algorithms work on buffers, on one of farcall's streams, with temporary
// memory from farcall; a future becomes ready after them.
//
// Needs nvcc and Thrust (package nvidia-cuda-toolkit), NVIDIA's driver (libcuda1), and a GPU.
//
//   example-32-gpu-thrust      exits with status 77 if there is no GPU
#include <farcall/gpu/gpu.hpp>

#include <cuda_runtime_api.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <list>
#include <utility>
#include <vector>

namespace fc = farcall;

/// Temporary memory of Thrust's algorithms on one stream. Their default is cudaMalloc and cudaFree,
/// which may wait until no resident worker runs.
class temporary_memory {
 public:
  using value_type = char;

  explicit temporary_memory(const fc::node& gpu) : gpu_(gpu) {}

  char* allocate(std::ptrdiff_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    for (block& b : blocks_) {
      if (!b.is_free || b.memory.size() < size) continue;
      b.is_free = false;
      return b.start();
    }
    return blocks_.emplace_back(gpu_.allocate<char>(size)).start();
  }
  /// Keeps the memory for the next algorithm: the previous one may still run, but the stream orders
  /// the next one after it.
  void deallocate(char* start, std::size_t /*bytes*/) {
    for (block& b : blocks_)
      b.is_free = b.is_free || b.start() == start;
  }

 private:
  struct block {
    explicit block(fc::buffer<char> m) : memory(std::move(m)) {}
    [[nodiscard]] char* start() const { return reinterpret_cast<char*>(memory.span().address()); }
    fc::buffer<char> memory;
    bool is_free = false;
  };

  fc::node gpu_;
  std::list<block> blocks_;
};

/// Sorts the keys together with their values, and sums up the values. The future is ready when all
/// is done; `memory` is used until then.
fc::future<void> sort_and_sum(const fc::node& gpu, const fc::buffer<std::uint32_t>& keys,
                              const fc::buffer<std::uint64_t>& values, temporary_memory& memory) {
  // The stream of this thread's launches on that node; each thread has its own.
  const auto stream = static_cast<cudaStream_t>(fc::device::stream(gpu));
  // Without "nosync" each algorithm would block until its end.
  const auto policy = thrust::cuda::par_nosync(memory).on(stream);
  auto* const k = reinterpret_cast<std::uint32_t*>(keys.span().address());
  auto* const v = reinterpret_cast<std::uint64_t*>(values.span().address());
  thrust::sort_by_key(policy, k, k + keys.size(), v);
  thrust::inclusive_scan(policy, v, v + values.size(), v);
  return fc::device::when(gpu, stream);
}

int run(int argc, char** argv) {
  const fc::job job{argc, argv, fc::job_options{.targets = "cuda:0"}};
  const fc::node gpu = job.targets().front();
  constexpr std::size_t n = 100'000;
  std::vector<std::uint32_t> keys(n);
  std::vector<std::uint64_t> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    keys[i] = static_cast<std::uint32_t>(i * 77'777 % n); // all different, since the factor and n
                                                          // have no common divisor
    values[i] = keys[i];
  }
  const auto there_keys = gpu.allocate<std::uint32_t>(n);
  const auto there_values = gpu.allocate<std::uint64_t>(n);
  fc::put_sync(keys, there_keys);
  fc::put_sync(values, there_values);

  temporary_memory memory(gpu);
  sort_and_sum(gpu, there_keys, there_values, memory).get();
  fc::get_sync(there_keys, keys);
  fc::get_sync(there_values, values);

  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i)
    wrong += keys[i] != i || values[i] != i * (i + 1) / 2 ? 1 : 0;
  std::printf("%zu pairs sorted and summed up, of which %zu are wrong\n", n, wrong);
  return wrong == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus != 0) return 1;
    std::printf("skipped: a GPU and the package libcuda1, NVIDIA's driver, are needed\n");
    return 77;
  }
}
