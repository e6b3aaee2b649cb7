#pragma once

#include <farcall/gpu/transport/device_api.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace farcall::cuda {

struct gpu_options {
  std::uint32_t device = 0; ///< as CUDA counts them
  std::uint32_t workers = 8;
  std::uint32_t threads = 256;       ///< of a worker, which is a block
  const void* kernel = nullptr;      ///< takes a worker_setup
  std::size_t kernel_memory = 0;     ///< bytes of shared memory that it needs
  std::vector<const void*> launched; ///< kernels that are launched beside it
};

/// A GPU, by CUDA's runtime. Throws error that says in one line why it cannot be used: no driver,
/// no such device, no code for it, no memory left.
[[nodiscard]] std::unique_ptr<device_api> make_gpu_device(const gpu_options& o);

/// Runs `what` with that device selected for this thread.
void with_device(std::uint32_t device, const std::function<void()>& what);

/// What a symbol of device code holds, which is the address of a function there. Throws error when
/// it cannot be one, and what CUDA says.
[[nodiscard]] std::uint64_t read_device_symbol(const void* symbol);

void write_device_symbol(const void* symbol, std::uint32_t value);

} // namespace farcall::cuda
