// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/transport/block_team.cuh>
#include <farcall/gpu/worker.hpp>
#include <farcall/gpu/worker_kernel.hpp>

namespace farcall::am {
__global__ void __launch_bounds__(256) farcall_executor(const cuda::worker_setup setup) {
  cuda::block_team team;
  serve_device(team, setup, *reinterpret_cast<device_team_state*>(farcall_team_memory));
}

const void* device_executor() noexcept { return reinterpret_cast<const void*>(&farcall_executor); }

std::size_t device_executor_memory() noexcept { return sizeof(device_team_state); }

} // namespace farcall::am
