#include <farcall/base/error.hpp>
#include <farcall/call/directory.hpp>
#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/program.hpp>
#include <farcall/gpu/worker_on_threads.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/transport/cuda/emulated.hpp>

namespace farcall::detail {
namespace {

/// A warp for each lane that a worker may look at.
constexpr std::uint32_t gpu_threads = 32 * cuda::lanes_per_worker;

} // namespace

device_with_code make_device(const target_url& url) {
  device_with_code made;
  if (url.scheme == "cuda-emulated") {
    cuda::emulated_options o;
    o.executor = am::device_worker_on_threads();
    o.workers = url.workers;
    if (url.threads != 0) o.threads = url.threads;
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
  return linked_gpu_maker(url.device, url.workers, url.threads != 0 ? url.threads : gpu_threads);
}

} // namespace farcall::detail
