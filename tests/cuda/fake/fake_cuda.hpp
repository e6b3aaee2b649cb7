// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>

/// CUDA's runtime, and the driver functions that farcall calls, made of threads: a program that is
/// linked with this in place of CUDA runs all of farcall's code for GPUs without a GPU.
///
/// Each stream is a thread. Work that CUDA may do late is done late, and calls that "may" wait for
/// an idle device do wait. Tests can ask for every kind of failure of CUDA.
namespace farcall::fake_cuda {

/// Restores the state at the start of the program: no objects, no failures. Kernels stay known.
void begin();

// ---- failures, until begin()

/// Makes the `number`-th call from now on (1: the next one) fail with `status`.
void fail_call(std::int64_t number, cudaError_t status);
void fail_no_call();
/// Makes every call of that function fail; cudaSuccess ends that.
void fail_function(const std::string& name, cudaError_t status);
/// Sets the longest delay of a stream's work, so that streams overtake each other.
void set_most_delay(std::int64_t microseconds);
void set_devices(int count);
/// Lets all devices use each other's memory.
void make_peers();
/// Sets the value of an attribute of every device.
void set_attribute(CUdevice_attribute what, int value);
/// Sets the bytes of memory of each device.
void set_memory(std::uint64_t bytes);

// ---- observations

/// Returns the function whose call was made to fail; empty if there was none.
[[nodiscard]] std::string failed_function();
/// True if a device may access these addresses.
[[nodiscard]] bool can_use(int device, std::uint64_t address, std::uint64_t bytes);
/// True if the mapped memory can be used by other devices on the bus.
[[nodiscard]] bool is_for_rdma(std::uint64_t address);
/// Returns the calls that had to wait for an idle device while a kernel was running.
[[nodiscard]] std::string calls_that_waited();
/// Returns the devices that have a context, which takes memory there.
[[nodiscard]] std::set<int> devices_with_context();
/// Describes the objects that were made and not released; empty if there are none.
[[nodiscard]] std::string left_behind();

/// Ranges shown to a profiler since the last call: names with their payloads, and how many have not
/// ended.
struct profile {
  std::multimap<std::string, std::uint64_t> ranges;
  int open = 0;
};
[[nodiscard]] profile take_profile();

// ---- kernels

/// Adds the kernel `name`, which calls `run` with its first argument.
void add_kernel(const void* name, std::size_t argument_bytes,
                std::function<void(const void* argument)> run);
/// Enqueues the work of a kernel, which may be unknown, on a stream; a null name means a loaded
/// kernel. An exception of `run` is a fault.
void enqueue_kernel(const void* name, cudaStream_t stream, std::function<void()> run);

} // namespace farcall::fake_cuda
