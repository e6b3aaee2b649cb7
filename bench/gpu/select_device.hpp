// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check.hpp"

#include <cuda_runtime_api.h>

namespace farcall::gpu {

/// Makes the device the current one of this thread, and makes CUDA spin while it waits: sleeping
/// would slow launches down.
inline void select_device(int device) {
  check(cudaSetDevice(device), "selecting the device");
  // If the flag can no longer be changed, CUDA spins while there are enough processors.
  if (cudaSetDeviceFlags(cudaDeviceScheduleSpin) != cudaSuccess) (void)cudaGetLastError();
}

/// Keeps the current device busy for some tenths of a second: after idling, its clocks are slow at
/// first.
void wake_device();

} // namespace farcall::gpu
