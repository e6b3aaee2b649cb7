// SPDX-License-Identifier: Apache-2.0

// Lets jobs of this program find a GPU made by fake_cuda: its workers are workers of the emulated
// device, each on the thread of a stream.

#include "fake_cuda.hpp"

#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/gpu/device_test_support.hpp>
#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/program.hpp>
#include <farcall/gpu/transport/gpu_device.hpp>
#include <farcall/gpu/transport/thread_team.hpp>
#include <farcall/gpu/worker_on_threads.hpp>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace farcall::fake_cuda {
namespace {

constexpr char kernel = 0;

void run_worker(const void* argument) {
  const auto& setup = *static_cast<const cuda::worker_setup*>(argument);
  const cuda::thread_executor executor = am::device_worker_on_threads();
  const line_aligned_memory state = make_line_aligned(executor.state_bytes);
  cuda::barrier alone(1);
  cuda::thread_team team(alone, state.get(), setup.node, 0, 1);
  cuda::thread_team::set_current(&team);
  executor.run(team, setup, state.get());
  cuda::thread_team::set_current(nullptr);
}

/// Launcher of a request, from the time that it is found until it is launched.
thread_local cuda::launcher found = nullptr;

const char* launch_on_stream(const cuda::launch_plan& plan) {
  const std::vector<std::byte> arguments(plan.arguments, plan.arguments + plan.bytes);
  const auto* const name = reinterpret_cast<const void*>(found);
  enqueue_kernel(name, static_cast<cudaStream_t>(plan.stream), [plan, arguments, run = found] {
    cuda::launch_plan here = plan;
    here.arguments = arguments.data();
    (void)run(here);
  });
  return nullptr;
}

/// Offers the code for the emulated device to the fake, too.
void offer_code() {
  static std::deque<device_code> offered;
  if (!offered.empty()) return;
  using kind = device_code::kind;
  using address_function = device_code::address_function;
  device_code::for_each(kind::threads, [](const entry& what, address_function address) {
    offered.emplace_back(kind::gpu, what, address);
  });
  device_code::for_each(kind::launch_on_threads, [](const entry& what, address_function address) {
    const auto* const launched = reinterpret_cast<const void*>(address());
    add_kernel(launched, 0, {});
    offered.emplace_back(kind::launch_on_gpu, what, address, launched);
  });
}

cuda::device_with_code make_fake_gpu(std::uint32_t device, std::uint32_t workers,
                                     std::uint32_t threads) {
  offer_code();
  add_kernel(&kernel, sizeof(cuda::worker_setup), &run_worker);
  cuda::gpu_options o;
  o.device = device;
  o.workers = workers;
  o.threads = threads;
  o.kernel = &kernel;
  o.launched = device_code::kernels(device_code::kind::launch_on_gpu);
  cuda::device_with_code made;
  made.device = cuda::make_gpu_device(o);
  made.program = device_program_of(device_code::kind::gpu, device_code::kind::launch_on_gpu);
  made.program.launch_of = [find = made.program.launch_of](const std::byte* record,
                                                           std::uint32_t bytes,
                                                           cuda::launch_plan& plan) {
    found = find(record, bytes, plan);
    return found == nullptr ? nullptr : &launch_on_stream;
  };
  return made;
}

// NOLINTNEXTLINE(cppcoreguidelines-interfaces-global-init): what it writes to has a constant value
const bool is_linked = [] {
  detail::linked_gpu_maker = &make_fake_gpu;
  device_tests::why_no_gpu = [] { return std::string(); };
  return true;
}();

} // namespace
} // namespace farcall::fake_cuda
