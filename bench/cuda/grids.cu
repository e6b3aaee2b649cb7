// SPDX-License-Identifier: Apache-2.0

// Calls that launch whole grids, with the same futures as other calls.

#include "session.hpp"

#include <bench/gpu/functions.hpp>

#include <string>

namespace farcall::bench {

FARCALL_HOST_DEVICE void look_at(gpu::block<64> /*b*/) {}

namespace {

constexpr const char* rival = "launch 64 B in, 8 B out, flag in mapped memory";

void measure_window(session& s, const node& device, const grid& shape) {
  constexpr std::size_t depth = 16;
  constexpr std::size_t calls = 512;
  std::vector<double> rates;
  std::vector<future<void>> window(depth);
  s.watch.expect("grids, window 16");
  for (std::size_t i = 0; i < s.asked.choose(200, 30); ++i) {
    s.watch.tick();
    const auto begun = gpu::stopwatch_clock::now();
    for (std::size_t k = 0; k < calls; ++k) {
      future<void>& place = window[k % depth];
      if (place.valid()) place.get();
      // The cast: CUDA's compiler warns that the assignment's result is discarded.
      (void)(place = async(device, shape, device_fn<look_at>, gpu::block<64>{}));
    }
    for (future<void>& place : window)
      place.get();
    rates.push_back(double{calls} * 1e9 / gpu::ns_between(begun, gpu::stopwatch_clock::now()));
  }
  s.out.add_rate("async(gpu, grid{1, 256}, f), window 16", std::move(rates));
}

} // namespace

void measure_grids(session& s) {
  s.out.begin("grids");
  const watched_job j = s.start(1);
  const node device = j.device();
  async(device.within(first_call_timeout), grid{}, device_fn<look_at>, gpu::block<64>{}).get();
  // Fewer samples: emulated launches are passed to a thread that sleeps.
  const std::size_t samples = s.is_gpu() ? s.asked.samples : s.asked.samples / 10;
  const auto one = [&](const grid& shape) {
    s.latency("async(gpu, grid{" + std::to_string(shape.blocks) + ", 256}, f)",
              [&] { async(device, shape, device_fn<look_at>, gpu::block<64>{}).get(); },
              {.samples = samples, .against = rival});
  };
  one(grid{.blocks = 1});
  one(grid{.blocks = 64});
  measure_window(s, device, grid{.blocks = 1});
}

} // namespace farcall::bench
