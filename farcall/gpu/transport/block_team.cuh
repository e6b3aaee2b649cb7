#pragma once

#include <farcall/gpu/transport/slot.hpp>

#include <cstdint>

namespace farcall::cuda {

/// A block of a GPU as one of its threads sees it. A group is a warp, which looks at a whole slot
/// with one access.
class block_team {
 public:
  __device__ std::uint32_t rank() const { return threadIdx.x; }
  __device__ std::uint32_t size() const { return blockDim.x; }
  __device__ void sync() { __syncthreads(); }

  __device__ std::uint32_t subgroup() const { return threadIdx.x / warp; }
  __device__ std::uint32_t subgroups() const { return blockDim.x / warp; }
  __device__ std::uint32_t subgroup_rank() const { return threadIdx.x % warp; }
  __device__ void subgroup_sync() { __syncwarp(); }
  __device__ std::uint32_t broadcast(std::uint32_t value) const {
    return __shfl_sync(all, value, 0);
  }

  /// 16 bytes by each thread: one access of the bus. The acquire drops the cache's lines, so that a
  /// handler sees what the host and the copy engines have written since the message before.
  __device__ bool take(const slot& from, std::uint32_t phase, std::uint32_t* payload) {
    const std::uint32_t at = 2 * subgroup_rank();
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    load_acquire_pair(&from.words[at], first, second);
    const std::uint32_t head = __shfl_sync(all, payload_of(first), 0);
    const std::uint32_t head_phase = __shfl_sync(all, phase_in(first), 0);
    if (head_phase != phase) return false;
    const std::uint32_t words = words_of(head);
    const bool whole =
        (at >= words || phase_in(first) == phase) && (at + 1 >= words || phase_in(second) == phase);
    if (__all_sync(all, whole) == 0) return false;
    payload[at] = payload_of(first);
    payload[at + 1] = payload_of(second);
    __syncwarp();
    return true;
  }

  __device__ void put(slot& to, const std::uint32_t* payload, std::uint32_t words,
                      std::uint32_t phase) {
    __syncwarp();
    const std::uint32_t at = 2 * subgroup_rank();
    if (at >= words) return;
    store_relaxed_pair(&to.words[at], word_of(payload[at], phase), word_of(payload[at + 1], phase));
  }

  __device__ std::uint64_t now() const { return clock_ns(); }
  __device__ void rest(std::uint64_t idle) {
    if (idle > spin_ns) __nanosleep(idle > 20 * spin_ns ? 500 : 100);
  }

 private:
  static constexpr std::uint32_t warp = 32;
  static constexpr std::uint32_t all = 0xFFFFFFFF;
  static constexpr std::uint64_t spin_ns = 50'000;
};

} // namespace farcall::cuda
