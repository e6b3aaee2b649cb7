// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "select_device.hpp"

#include <farcall/gpu/transport/system_scope.hpp>

#include <cstdint>

namespace farcall::gpu {
namespace {

__global__ void spin_for(std::uint64_t ns) {
  const std::uint64_t begun = cuda::clock_ns();
  while (cuda::clock_ns() - begun < ns) {
  }
}

} // namespace

void wake_device() {
  constexpr std::uint64_t ns = 300'000'000;
  const own_stream stream;
  spin_for<<<1, 32, 0, stream.get()>>>(ns);
  check(cudaGetLastError(), "launching a kernel");
  stream.synchronize();
}

} // namespace farcall::gpu
