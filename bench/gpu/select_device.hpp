#pragma once

#include "check.hpp"

#include <cuda_runtime_api.h>

namespace farcall::gpu {

/// Makes the device the current one of this thread, and waits of CUDA spin: sleeping, they would
/// make launches slower than they need to be.
inline void select_device(int device) {
  check(cudaSetDevice(device), "selecting the device");
  // Where that cannot be changed any more, CUDA spins as long as there are processors enough.
  if (cudaSetDeviceFlags(cudaDeviceScheduleSpin) != cudaSuccess) (void)cudaGetLastError();
}

/// Has the current device work for some tenths of a second: one that has slept has slow clocks at
/// first.
void wake_device();

} // namespace farcall::gpu
