// SPDX-License-Identifier: Apache-2.0

// Part of the library that the linker includes only in programs with GPU code, because the
// registration of such code calls the functions at the end of this file.

#include <farcall/call/key_resolver.hpp>
#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/program.hpp>
#include <farcall/gpu/transport/gpu_device.hpp>
#include <farcall/gpu/worker_kernel.hpp>

#include <cstdlib>

namespace farcall::detail {
namespace {

cuda::device_with_code make_gpu(std::uint32_t device, std::uint32_t workers,
                                std::uint32_t threads) {
  cuda::gpu_options o;
  o.device = device;
  o.workers = workers;
  o.threads = threads;
  o.kernel = am::device_executor();
  o.kernel_memory = am::device_executor_memory();
  o.launched = device_code::kernels(device_code::kind::launch_on_gpu);
  cuda::device_with_code made;
  made.device = cuda::make_gpu_device(o);
  cuda::with_device(device, [&made] {
    made.program = device_program_of(device_code::kind::gpu, device_code::kind::launch_on_gpu);
    gpu_key::for_each([](const entry& what, const void* symbol) {
      cuda::write_device_symbol(symbol, key_resolver::own_key(what));
    });
  });
  return made;
}

// NOLINTNEXTLINE(cppcoreguidelines-interfaces-global-init): what it writes to has a constant value
const bool is_linked = [] {
  linked_gpu_maker = &make_gpu;
  // Raise the number of hardware queues, because streams that share a queue wait for each other.
  // The last argument keeps a value that the user has set. Set the environment variable already in
  // this initializer, because CUDA reads it when the program uses CUDA for the first time, and
  // because no other thread reads the environment yet.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return true;
}();

} // namespace

std::uint64_t read_gpu_address(const void* symbol) {
  // Use is_linked in an expression, so that the linker keeps the variable and its initializer.
  return is_linked ? cuda::read_device_symbol(symbol) : 0;
}

std::uint64_t gpu_launcher_address(cuda::launcher run) {
  return is_linked ? reinterpret_cast<std::uintptr_t>(run) : 0;
}

} // namespace farcall::detail
