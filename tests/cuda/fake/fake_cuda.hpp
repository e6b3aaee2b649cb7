#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>

/// CUDA's runtime, and what farcall calls of its driver, made of threads: a program that is linked
/// with this instead of CUDA runs all of farcall's code for GPUs where there is none.
///
/// Each stream is a thread. Work that CUDA may do late is done late, and what CUDA says "may" wait
/// for an idle device does wait. Of what can be wrong with CUDA, everything can be asked for.
namespace farcall::fake_cuda {

/// All as it was at the start of the program: nothing made, nothing wrong. Kernels stay known.
void begin();

// ---- what is wrong, until begin()

/// The `number`-th call from now on (1: the next) fails with `status`.
void fail_call(std::int64_t number, cudaError_t status);
void fail_no_call();
/// Every call of that function fails; none with cudaSuccess.
void fail_function(const std::string& name, cudaError_t status);
/// Work of a stream begins up to that late, so that streams overtake each other.
void set_most_delay(std::int64_t microseconds);
void set_devices(int count);
/// All devices can use each other's memory.
void make_peers();
/// What cuDeviceGetAttribute says of every device.
void set_attribute(CUdevice_attribute what, int value);
/// Bytes of each device.
void set_memory(std::uint64_t bytes);

// ---- what was seen

/// The function whose call was made to fail; empty when none was.
[[nodiscard]] std::string failed_function();
/// A device may touch these addresses.
[[nodiscard]] bool can_use(int device, std::uint64_t address, std::uint64_t bytes);
/// The mapped memory was asked for so that other devices on the bus can use it.
[[nodiscard]] bool is_for_rdma(std::uint64_t address);
/// Calls that had to wait because a kernel was running, where CUDA waits for an idle device.
[[nodiscard]] std::string calls_that_waited();
/// Devices on which a context was made, which takes memory there.
[[nodiscard]] std::set<int> devices_with_context();
/// What was made and not given back, in words; empty when there is nothing.
[[nodiscard]] std::string left_behind();

/// What a profiler was shown since the last call: names of ranges with their payloads, and how many
/// have not ended.
struct profile {
  std::multimap<std::string, std::uint64_t> ranges;
  int open = 0;
};
[[nodiscard]] profile take_profile();

// ---- kernels

/// What runs as the kernel that `name` stands for, with the first of its arguments.
void add_kernel(const void* name, std::size_t argument_bytes,
                std::function<void(const void* argument)> run);
/// Puts the work of a kernel, which need not be known, on a stream; null: of one that is loaded. It
/// throws to fault.
void enqueue_kernel(const void* name, cudaStream_t stream, std::function<void()> run);

} // namespace farcall::fake_cuda
