#include "bus_floor.hpp"
#include "check.hpp"
#include "ping_pong.hpp"

#include <farcall/gpu/transport/block_team.cuh>
#include <farcall/gpu/transport/slot.hpp>

namespace farcall::gpu {
namespace {

/// A partner that has gone must not be waited for.
constexpr std::uint64_t longest_silence_ns = 5'000'000'000;

/// False when nothing has come for too long. The clock is only asked when the wait is long already.
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

__global__ void echo_flags(flag_board* b, std::uint64_t last) {
  for (std::uint64_t number = 1; number <= last; ++number) {
    const std::uint64_t* const ping = &b->ping[number % flag_places].number;
    const bool came = wait_for([&] { return cuda::load_relaxed(ping) == number; });
    if (!came) return;
    cuda::store_relaxed(&b->pong[number % flag_places].number, number);
  }
}

/// The slots of farcall's lanes, without anything else of it: a warp looks at a whole slot.
struct slot_board {
  cuda::slot down[cuda::ring_slots];
  cuda::slot up[cuda::ring_slots];
};

__global__ void echo_slots(slot_board* b, std::uint64_t last) {
  __shared__ __align__(16) std::uint32_t message[cuda::slot_words];
  cuda::block_team team;
  for (std::uint64_t number = 1; number <= last; ++number) {
    const std::uint32_t at = cuda::slot_at(number);
    const std::uint32_t lap = cuda::phase_of(number);
    if (!wait_for([&] { return team.take(b->down[at], lap, cuda::slot_words, message); })) return;
    team.put(b->up[at], message, cuda::words_of(message[0]), lap);
    __syncwarp();
  }
}

std::vector<double> time_slots(slot_board& b, std::size_t samples, std::uint32_t bytes) {
  alignas(16) std::uint32_t out[cuda::slot_words] = {bytes};
  alignas(16) std::uint32_t back[cuda::slot_words] = {};
  return time_round_trips(samples, 1, [&](std::uint64_t number) {
    const std::uint32_t at = cuda::slot_at(number);
    const std::uint32_t lap = cuda::phase_of(number);
    cuda::store_slot(b.down[at], out, cuda::words_of(bytes), lap);
    spin_until([&] { return cuda::load_slot(b.up[at], lap, back); });
  });
}

} // namespace

std::vector<double> time_flags_over_bus(std::size_t samples, std::size_t trips) {
  const own_stream stream;
  const pinned<flag_board> b;
  echo_flags<<<1, 1, 0, stream.get()>>>(b.get(), last_round_trip(samples, trips));
  check(cudaGetLastError(), "launching the floor's kernel");
  std::vector<double> taken = time_flags(*b, samples, trips);
  stream.synchronize();
  return taken;
}

std::vector<double> time_slots_over_bus(std::size_t samples, std::uint32_t bytes) {
  const own_stream stream;
  const pinned<slot_board> b;
  echo_slots<<<1, 32, 0, stream.get()>>>(b.get(), last_round_trip(samples, 1));
  check(cudaGetLastError(), "launching the floor's kernel");
  std::vector<double> taken = time_slots(*b, samples, bytes);
  stream.synchronize();
  return taken;
}

} // namespace farcall::gpu
