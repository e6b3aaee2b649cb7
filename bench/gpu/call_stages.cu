// SPDX-License-Identifier: Apache-2.0
#include "call_stages.hpp"
#include "check.hpp"
#include "ping_pong.hpp"

#include <farcall/gpu/transport/block_team.cuh>
#include <farcall/gpu/transport/worker_control.hpp>
#include <farcall/gpu/worker.hpp>

namespace farcall::gpu {
namespace {

constexpr std::uint32_t ring_bytes = 4096;
constexpr std::uint32_t threads = 256;

struct stamps {
  std::uint64_t at[cuda::worker_stages];
};

/// Readings of the device's clocks, from which the ratio of their rates is computed.
struct clock_pair {
  std::uint64_t cycles;
  std::uint64_t ns;
};
__device__ clock_pair clocks() { return {static_cast<std::uint64_t>(clock64()), cuda::clock_ns()}; }

/// A team that records times: the first thread of the subgroup that serves a call stores them.
class stamping_team : public cuda::block_team {
 public:
  __device__ explicit stamping_team(stamps* all) : all_(all) {}
  __device__ void note(cuda::worker_stage reached) {
    now_.at[static_cast<std::uint32_t>(reached)] = static_cast<std::uint64_t>(clock64());
    if (reached != cuda::worker_stage::replied) return;
    // One at a time: this subgroup still has the claim.
    const auto* const state = reinterpret_cast<am::device_team_state*>(am::farcall_team_memory);
    all_[state->lanes[0].up_next] = now_;
  }

 private:
  stamps* all_;
  stamps now_{};
};

__device__ void do_nothing(am::device_request& request) { request.is_pure = true; }
__device__ am::device_handler nothing_handler = &do_nothing;

__global__ void __launch_bounds__(threads)
    stamped_worker(const cuda::worker_setup setup, stamps* all, clock_pair* life) {
  if (threadIdx.x == 0) life[0] = clocks();
  stamping_team team(all);
  am::serve_device(team, setup, *reinterpret_cast<am::device_team_state*>(am::farcall_team_memory));
  if (threadIdx.x == 0) life[1] = clocks();
}

struct lane_with_rings {
  cuda::lane_memory memory;
  std::byte rings[2 * ring_bytes];
};
struct shared_memory {
  cuda::worker_control control;
  lane_with_rings lane;
  lane_with_rings host_calls;
};

void make_leave(shared_memory& shared) {
  cuda::store_release(&shared.control.command,
                      static_cast<std::uint32_t>(cuda::worker_command::leave));
}

std::vector<double> time_calls(shared_memory& shared, std::size_t samples) {
  cuda::lane_memory& lane = shared.lane.memory;
  return time_round_trips(samples, 1, [&](std::uint64_t number) {
    const std::uint64_t position = number - 1;
    const std::uint32_t slot = cuda::slot_at(position);
    const std::uint32_t phase = cuda::phase_of(position);
    alignas(16) std::uint32_t message[cuda::slot_words] = {
        commit_word(am::request_body, record_kind::request), 0, 0, 0};
    cuda::store_slot(lane.down[slot], message, cuda::words_of(message[0]), phase);
    spin_until([&] { return cuda::load_slot(lane.up[slot], phase, message); });
    if (position % (cuda::ring_slots / 4) == 0) cuda::store_release(&lane.up_consumed, number);
  });
}

} // namespace

call_stages time_call_stages(std::size_t samples) {
  const own_stream stream;
  const pinned<shared_memory> shared;
  const std::uint64_t calls = last_round_trip(samples, 1);
  const device_array<stamps> all(calls);
  const device_array<clock_pair> life(2);
  const device_array<std::uint64_t> table(1);
  check(cudaMemcpyFromSymbol(table.get(), nothing_handler, sizeof(std::uint64_t), 0,
                             cudaMemcpyDeviceToDevice),
        "taking a handler's address");

  cuda::worker_setup setup{};
  setup.control = &shared->control;
  setup.first_lane = reinterpret_cast<std::byte*>(&shared->lane);
  setup.lane_stride = sizeof shared->lane;
  setup.host_calls = &shared->host_calls.memory;
  setup.handlers = table.get();
  setup.handler_count = 1;
  setup.lanes = 1;
  setup.ring_bytes = ring_bytes;
  setup.idle_ns = setup.call_ns = 1'000'000'000; // timeouts, in case the host has failed
  setup.lifetime_ns = UINT64_MAX;
  shared->control.lanes = 1;
  check(cudaDeviceSynchronize(), "waiting for the device");
  stamped_worker<<<1, threads, sizeof(am::device_team_state), stream.get()>>>(setup, all.get(),
                                                                              life.get());
  check(cudaGetLastError(), "launching a worker");

  call_stages found;
  try {
    found.round_trip = time_calls(*shared, samples);
  } catch (...) {
    make_leave(*shared);
    throw;
  }
  make_leave(*shared);
  stream.synchronize();

  std::vector<stamps> told(calls);
  clock_pair ends[2];
  check(cudaMemcpy(told.data(), all.get(), calls * sizeof(stamps), cudaMemcpyDeviceToHost),
        "copying the stamps");
  check(cudaMemcpy(ends, life.get(), sizeof ends, cudaMemcpyDeviceToHost), "copying the stamps");
  const double ns_of_a_cycle = static_cast<double>(ends[1].ns - ends[0].ns) /
                               static_cast<double>(ends[1].cycles - ends[0].cycles);
  for (std::size_t i = calls - samples; i < calls; ++i) {
    for (std::size_t stage = 0; stage < found.between.size(); ++stage) {
      const auto cycles = static_cast<double>(told[i].at[stage + 1] - told[i].at[stage]);
      found.between[stage].push_back(cycles * ns_of_a_cycle);
    }
  }
  return found;
}

} // namespace farcall::gpu
