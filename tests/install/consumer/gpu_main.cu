// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/gpu.hpp>

__host__ __device__ int twice(int n) { return 2 * n; }

int main() {
  farcall::job job(farcall::job_options{.targets = "cuda-emulated:0"});
  return farcall::sync(job.targets().front(), farcall::device_fn<twice>, 21) == 42 ? 0 : 1;
}
