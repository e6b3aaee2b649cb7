// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/device_api.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace farcall::cuda {

struct gpu_options {
  std::uint32_t device = 0; ///< CUDA's number for the device
  std::uint32_t workers = 8;
  std::uint32_t threads = 256;       ///< threads of a worker, which is a block
  const void* kernel = nullptr;      ///< takes a worker_setup
  std::size_t kernel_memory = 0;     ///< bytes of shared memory that the worker's kernel needs
  std::vector<const void*> launched; ///< kernels that the program launches besides the worker's
};

/// Makes a device that uses a GPU by CUDA's runtime. If the GPU cannot be used, throws error with
/// the reason in one line, such as: no driver, no such device, no code for the device, or no memory
/// left.
[[nodiscard]] std::unique_ptr<device_api> make_gpu_device(const gpu_options& o);

/// Runs `what` while that device is selected for the calling thread.
void with_device(std::uint32_t device, const std::function<void()>& what);

/// Returns the value of a variable of device code, which is the address of a function on the
/// device. Throws error if the value cannot be an address, or if CUDA fails.
[[nodiscard]] std::uint64_t read_device_symbol(const void* symbol);

void write_device_symbol(const void* symbol, std::uint32_t value);

} // namespace farcall::cuda
