// SPDX-License-Identifier: Apache-2.0

// A library for GPUs, here cuBLAS, between calls: the library works on one of farcall's streams,
// and a launch after it makes a future ready.
//
// Needs nvcc and cuBLAS (package nvidia-cuda-toolkit), NVIDIA's driver (libcuda1), and a GPU.
//
//   example-31-gpu-library      exits with status 77 if there is no GPU
#include <farcall/gpu/gpu.hpp>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace fc = farcall;

FARCALL_HOST_DEVICE void keep_positive(fc::remote_span<double> values) {
  const fc::device::whole_grid grid = fc::device::this_grid();
  for (std::size_t i = grid.rank(); i < values.size(); i += grid.size())
    if (values[i] < 0) values[i] = 0;
}

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
}

int run(int argc, char** argv) {
  const fc::job job{argc, argv, fc::job_options{.targets = "cuda:0"}};
  const fc::node gpu = job.targets().front();
  // Small integers, so that the product is exact; column by column, as cuBLAS wants them.
  constexpr int n = 256;
  std::vector<double> a(std::size_t{n} * n);
  std::vector<double> c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<double>(i * i % 7) - 3;
  const auto there_a = gpu.allocate<double>(a.size());
  const auto there_c = gpu.allocate<double>(a.size());
  fc::put_sync(a, there_a);

  // The stream of this thread's launches on that node; each thread has its own.
  const auto stream = static_cast<cudaStream_t>(fc::device::stream(gpu));
  const auto* const in = reinterpret_cast<const double*>(there_a.span().address());
  auto* const out = reinterpret_cast<double*>(there_c.span().address());
  const double one = 1;
  const double zero = 0;
  cublasHandle_t blas = nullptr;
  check(cublasCreate(&blas));
  check(cublasSetStream(blas, stream));
  check(cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, in, n, in, n, &zero, out, n));
  // Starts after the product; the future is ready when it has ended.
  fc::async(gpu, fc::grid{.blocks = 32}, fc::device_fn<keep_positive>, there_c.span()).get();
  fc::get_sync(there_c, c);
  check(cublasDestroy(blas));

  int wrong = 0;
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      double expected = 0;
      for (std::size_t k = 0; k < n; ++k)
        expected += a[k * n + row] * a[column * n + k];
      wrong += c[column * n + row] != std::max(expected, 0.0);
    }
  }
  std::printf("square of a matrix of %d x %d elements, of which %d are wrong\n", n, n, wrong);
  return wrong == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus != 0) return 1;
    std::printf("skipped: a GPU and the package libcuda1, NVIDIA's driver, are needed\n");
    return 77;
  }
}
