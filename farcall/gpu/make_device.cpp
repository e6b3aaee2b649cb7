// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/key_resolver.hpp>
#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/program.hpp>
#include <farcall/gpu/transport/emulated.hpp>
#include <farcall/gpu/worker_on_threads.hpp>
#include <farcall/offload/job_state.hpp>

namespace farcall::detail {
namespace {

/// Threads of a worker: one warp for each lane that the worker may poll.
constexpr std::uint32_t gpu_threads = 32 * cuda::lanes_per_worker;

} // namespace

constinit gpu_maker linked_gpu_maker = nullptr;

cuda::device_with_code make_device(const target_url& url) {
  cuda::device_with_code made;
  if (cuda::is_emulated(url)) {
    cuda::emulated_options o;
    o.executor = am::device_worker_on_threads();
    o.workers = url.workers;
    if (const auto threads = url.number("threads")) o.threads = *threads;
    o.cpu = url.cpu;
    made.device = cuda::make_emulated_device(o);
    made.program =
        device_program_of(device_code::kind::threads, device_code::kind::launch_on_threads);
    return made;
  }
  if (linked_gpu_maker == nullptr) {
    throw error(
        "this program has no code for GPUs; have CUDA's compiler compile the files with such "
        "functions, and call farcall_cuda_target() in CMake, or use cuda-emulated:0");
  }
  return linked_gpu_maker(cuda::device_number(url), url.workers,
                          url.number("threads").value_or(gpu_threads));
}

cuda::cuda_transport* device_of(const members& members, node_id node) noexcept {
  return dynamic_cast<cuda::cuda_transport*>(members.hosted(node));
}

} // namespace farcall::detail
