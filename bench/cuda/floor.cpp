// SPDX-License-Identifier: Apache-2.0

// The floor: one word there and back, with no work between; no call can be faster.

#include "session.hpp"

#include <bench/gpu/bus_floor.hpp>
#include <bench/gpu/ping_pong.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/base/clock.hpp>
#include <farcall/base/library_thread.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace farcall::bench {
namespace {

/// Measures with another thread in place of a device.
std::vector<double> between_threads(std::size_t samples, int cpu) {
  auto b = std::make_unique<gpu::flag_board>();
  std::atomic<bool> is_done{false};
  library_thread echo("farcall-tool", [&] {
    tool::pin_this_thread(cpu);
    std::uint64_t number = 1;
    while (!is_done.load(std::memory_order_relaxed)) {
      const std::size_t at = number % gpu::flag_places;
      if (std::atomic_ref(b->ping[at].number).load(std::memory_order_acquire) != number) {
        spin_pause();
        continue;
      }
      std::atomic_ref(b->pong[at].number).store(number, std::memory_order_release);
      ++number;
    }
  });
  std::vector<double> taken;
  try {
    taken = gpu::time_flags(*b, samples, 1);
  } catch (const std::exception&) {
    // Leave `taken` empty: there are no figures then.
  }
  is_done = true;
  echo.join();
  if (taken.empty()) throw std::runtime_error("the other thread of the floor did not run");
  return taken;
}

void measure_gpu(session& s) {
  for (const unsigned warps : gpu::floor_warps) {
    s.watch.tick();
    s.out.add_call("flag ping-pong over the bus, warps that look: " + std::to_string(warps),
                   gpu::time_flags_over_bus(s.asked.samples, 1, warps), row_kind::floor);
  }
  for (const std::uint32_t bytes : {8U, 64U, 256U}) {
    s.watch.tick();
    s.out.add_call("slot ping-pong, " + std::to_string(bytes) + " B",
                   gpu::time_slots_over_bus(s.asked.samples, bytes));
  }
}

} // namespace

void measure_floor(session& s) {
  s.out.begin("floor");
  s.watch.expect("the floor");
  if (s.is_gpu()) {
    measure_gpu(s);
    return;
  }
  if (s.cpus.size() < 2) {
    s.out.add_note("no floor: it needs two processors");
    return;
  }
  s.out.add_call("flag ping-pong between two threads", between_threads(s.asked.samples, s.cpus[1]),
                 row_kind::floor);
}

} // namespace farcall::bench
