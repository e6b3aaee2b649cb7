// SPDX-License-Identifier: Apache-2.0
#include "bus_floor.hpp"
#include "check.hpp"
#include "ping_pong.hpp"

#include <farcall/gpu/transport/block_team.cuh>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/gpu/transport/slot.hpp>

#include <algorithm>
#include <utility>

namespace farcall::gpu {
namespace {

/// Timeout of the kernel, in case its partner has ended.
constexpr std::uint64_t longest_silence_ns = 5'000'000'000;

/// About the time of a load from the host's memory.
constexpr std::uint64_t look_ns = 1000;

/// Polls until look() is true. Returns false after the timeout. Reads the clock only when the wait
/// is long already.
template <class Look>
__device__ bool wait_for(Look&& look) {
  std::uint64_t begun = 0;
  for (std::uint32_t looks = 1;; ++looks) {
    if (look()) return true;
    if (looks % 4096 != 0) continue;
    const std::uint64_t now = cuda::clock_ns();
    if (begun == 0) begun = now;
    if (now - begun > longest_silence_ns) return false;
  }
}

/// Echoes flags. One thread of each warp polls, so that as many loads are under way as there are
/// warps. The first thread that sees a number stores it back.
__global__ void echo_flags(flag_board* b, std::uint64_t last) {
  __shared__ volatile std::uint64_t replied;
  if (threadIdx.x == 0) replied = 0;
  __syncthreads();
  if (threadIdx.x % 32 != 0) return;
  // Start the polls at different times within a load, so that they stay apart.
  const std::uint64_t begun = cuda::clock_ns();
  while (cuda::clock_ns() - begun < look_ns * threadIdx.x / blockDim.x) {
  }
  for (std::uint64_t number = 1; number <= last; number = replied + 1) {
    const std::uint64_t* const ping = &b->ping[number % flag_places].number;
    const bool came = wait_for([&] { return cuda::load_relaxed(ping) >= number; });
    if (!came) return;
    // Two threads may do this at a time, and then store the same number.
    if (replied >= number) continue;
    replied = number;
    cuda::store_relaxed(&b->pong[number % flag_places].number, number);
  }
}

/// Slots of farcall's lanes, without the rest of the protocol: a warp reads a whole slot.
struct slot_board {
  cuda::slot down[cuda::ring_slots];
  cuda::slot up[cuda::ring_slots];
};

__global__ void echo_slots(slot_board* b, std::uint64_t last, std::uint32_t expected) {
  __shared__ __align__(16) std::uint32_t message[cuda::slot_words];
  cuda::block_team team;
  for (std::uint64_t number = 1; number <= last; ++number) {
    const std::uint32_t at = cuda::slot_at(number);
    const std::uint32_t phase = cuda::phase_of(number);
    if (!wait_for([&] { return team.take(b->down[at], phase, expected, message); })) return;
    team.put(b->up[at], message, cuda::words_of(message[0]), phase);
    __syncwarp();
  }
}

std::vector<double> time_slots(slot_board& b, std::size_t samples, std::uint32_t bytes) {
  alignas(16) std::uint32_t out[cuda::slot_words] = {bytes};
  alignas(16) std::uint32_t back[cuda::slot_words] = {};
  return time_round_trips(samples, 1, [&](std::uint64_t number) {
    const std::uint32_t at = cuda::slot_at(number);
    const std::uint32_t phase = cuda::phase_of(number);
    cuda::store_slot(b.down[at], out, cuda::words_of(bytes), phase);
    spin_until([&] { return cuda::load_slot(b.up[at], phase, back); });
  });
}

} // namespace

std::vector<double> time_flags_over_bus(std::size_t samples, std::size_t trips, unsigned warps) {
  const own_stream stream;
  const pinned<flag_board> b;
  echo_flags<<<1, 32 * warps, 0, stream.get()>>>(b.get(), last_round_trip(samples, trips));
  check(cudaGetLastError(), "launching the floor's kernel");
  std::vector<double> taken = time_flags(*b, samples, trips);
  stream.synchronize();
  return taken;
}

std::vector<double> time_floor_over_bus(std::size_t samples, std::size_t trips) {
  std::vector<double> best;
  double best_median = 0;
  for (const unsigned warps : floor_warps) {
    std::vector<double> taken = time_flags_over_bus(samples, trips, warps);
    const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(taken.size() / 2);
    std::nth_element(taken.begin(), middle, taken.end());
    if (best.empty() || *middle < best_median) {
      best_median = *middle;
      best = std::move(taken);
    }
  }
  return best;
}

std::vector<double> time_slots_over_bus(std::size_t samples, std::uint32_t bytes) {
  const own_stream stream;
  const pinned<slot_board> b;
  echo_slots<<<1, 32, 0, stream.get()>>>(b.get(), last_round_trip(samples, 1),
                                         cuda::expected_after(cuda::words_of(bytes)));
  check(cudaGetLastError(), "launching the floor's kernel");
  std::vector<double> taken = time_slots(*b, samples, bytes);
  stream.synchronize();
  return taken;
}

} // namespace farcall::gpu
