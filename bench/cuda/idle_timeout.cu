// SPDX-License-Identifier: Apache-2.0

// Costs of workers that leave and start again, and of workers that stay.

#include "session.hpp"

#include <bench/gpu/check.hpp>
#include <bench/gpu/functions.hpp>

#include <string>

namespace farcall::bench {
namespace {

void measure_start(session& s) {
  const watched_job j = s.start(1);
  const node device = j.device();
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  std::vector<double> samples;
  s.watch.expect("first call after the worker has left");
  for (std::size_t i = 0; i < s.asked.choose(2000, 200); ++i) {
    s.watch.tick();
    device::quiesce(device);
    const auto begun = gpu::stopwatch_clock::now();
    sync(device, pure_fn<gpu::nothing>);
    samples.push_back(gpu::ns_between(begun, gpu::stopwatch_clock::now()));
  }
  s.out.add_duration("first call after the worker has left", std::move(samples));
}

// ---- a kernel that uses all of the memory's bandwidth
// --------------------------------------------

__global__ void scale(float4* to, const float4* from, std::size_t count) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const float4 v = from[i];
    to[i] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
  }
}

class bandwidth_kernel {
 public:
  explicit bandwidth_kernel(std::size_t bytes)
      : count_(bytes / sizeof(float4)), from_(count_), to_(count_) {
    int device = 0;
    int processors = 0;
    gpu::check(cudaGetDevice(&device), "asking for the device");
    gpu::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
               "asking for the device");
    blocks_ = static_cast<unsigned>(processors) * 8;
    gpu::check(cudaMemset(from_.get(), 0, bytes), "clearing memory");
    gpu::check(cudaEventCreate(&begin_), "making an event");
    gpu::check(cudaEventCreate(&end_), "making an event");
    gpu::check(cudaDeviceSynchronize(), "clearing memory");
  }
  bandwidth_kernel(const bandwidth_kernel&) = delete;
  bandwidth_kernel& operator=(const bandwidth_kernel&) = delete;
  ~bandwidth_kernel() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }

  /// Returns the nanoseconds of one run, by the device's clock.
  [[nodiscard]] double run() {
    gpu::check(cudaEventRecord(begin_, stream_.get()), "timing a kernel");
    scale<<<blocks_, 256, 0, stream_.get()>>>(to_.get(), from_.get(), count_);
    gpu::check(cudaEventRecord(end_, stream_.get()), "timing a kernel");
    gpu::check(cudaEventSynchronize(end_), "timing a kernel");
    float ms = 0;
    gpu::check(cudaEventElapsedTime(&ms, begin_, end_), "timing a kernel");
    return double{ms} * 1e6;
  }

 private:
  std::size_t count_;
  unsigned blocks_ = 0;
  gpu::device_array<float4> from_;
  gpu::device_array<float4> to_;
  gpu::own_stream stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// Makes a call through every worker, so that all of them run.
void wake_all(const std::vector<lane>& lanes) {
  for (const lane& l : lanes)
    sync(l, pure_fn<gpu::nothing>);
}

void measure_idle_workers(session& s, std::size_t workers) {
  bandwidth_kernel kernel(std::size_t{1} << (s.asked.quick ? 27 : 29));
  const watched_job j = s.start(workers);
  const node device = j.device();
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  std::vector<lane> lanes;
  for (std::size_t i = 0; i < workers; ++i)
    lanes.emplace_back(device);
  std::vector<double> alone;
  std::vector<double> beside;
  const std::size_t runs = 20;
  s.watch.expect("kernels beside " + std::to_string(workers) + " workers");
  for (std::size_t turn = 0; turn < s.asked.choose(10, 3); ++turn) {
    s.watch.tick();
    device::pin_resident(device, false);
    device::quiesce(device);
    for (std::size_t i = 0; i <= runs; ++i) {
      const double ns = kernel.run();
      if (i != 0) alone.push_back(ns);
    }
    device::pin_resident(device);
    wake_all(lanes);
    for (std::size_t i = 0; i <= runs; ++i) {
      const double ns = kernel.run();
      if (i != 0) beside.push_back(ns);
    }
  }
  device::pin_resident(device, false);
  const std::string n = std::to_string(workers);
  const std::string without = "bandwidth kernel alone, in turn with " + n + " workers";
  s.out.add_duration(without, std::move(alone));
  s.out.add({.what = "bandwidth kernel, " + n + " idle workers",
             .unit = "ns",
             .value = summarize(std::move(beside)),
             .against = without});
}

} // namespace

void measure_idle_timeout(session& s) {
  s.out.begin("lease");
  measure_start(s);
  if (!s.is_gpu()) return;
  measure_idle_workers(s, 1);
  measure_idle_workers(s, 8);
}

} // namespace farcall::bench
