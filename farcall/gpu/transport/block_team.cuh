// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/executor.hpp>
#include <farcall/gpu/transport/slot.hpp>

#include <cstdint>

namespace farcall::cuda {

/// A block of a GPU as a team, as seen by one of its threads. A subgroup is a warp, which reads a
/// whole slot with one access.
class block_team {
 public:
  __device__ std::uint32_t rank() const { return threadIdx.x; }
  __device__ std::uint32_t size() const { return blockDim.x; }
  __device__ void sync() { __syncthreads(); }

  __device__ std::uint32_t subgroup() const { return threadIdx.x / warp; }
  __device__ std::uint32_t subgroups() const { return blockDim.x / warp; }
  __device__ std::uint32_t subgroup_rank() const { return threadIdx.x % warp; }
  __device__ std::uint32_t subgroup_size() const { return warp; }
  __device__ void subgroup_sync() { __syncwarp(); }
  __device__ std::uint32_t broadcast(std::uint32_t value) const {
    return __shfl_sync(all, value, 0);
  }

  /// Polls a slot with all threads of a subgroup, each of which reads 16 bytes. If the message has
  /// no more words than expected, the poll takes one access of the bus. The loads acquire, which
  /// invalidates the GPU's cache, so that a handler sees what the host and the copy engines have
  /// written before the message.
  __device__ bool take(const slot& from, std::uint32_t phase, std::uint32_t expected,
                       std::uint32_t* payload) {
    const std::uint32_t at = 2 * subgroup_rank();
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    if (at < expected) load_acquire_pair(&from.words[at], first, second);
    const std::uint32_t head = __shfl_sync(all, payload_of(first), 0);
    const std::uint32_t head_phase = __shfl_sync(all, phase_in(first), 0);
    if (head_phase != phase) return false;
    const std::uint32_t words = words_of(head);
    if (at >= expected && at < words) load_acquire_pair(&from.words[at], first, second);
    const bool whole =
        (at >= words || phase_in(first) == phase) && (at + 1 >= words || phase_in(second) == phase);
    if (__all_sync(all, whole) == 0) return false;
    payload[at] = payload_of(first);
    payload[at + 1] = payload_of(second);
    __syncwarp();
    return true;
  }

  /// Writes a message into a slot with all threads of a subgroup. The caller may overwrite
  /// `payload` afterwards.
  __device__ void put(slot& to, const std::uint32_t* payload, std::uint32_t words,
                      std::uint32_t phase) {
    __syncwarp();
    const std::uint32_t at = 2 * subgroup_rank();
    if (at < words) {
      store_relaxed_pair(&to.words[at], word_of(payload[at], phase),
                         word_of(payload[at + 1], phase));
    }
    __syncwarp();
  }

  // ---- access to words in shared memory, which the team's threads share

  template <class Word>
  __device__ Word load(const Word& word) const {
    return *const_cast<const volatile Word*>(&word);
  }
  template <class Word>
  __device__ void store(Word& word, Word value) {
    *const_cast<volatile Word*>(&word) = value;
  }
  __device__ void set_bits(std::uint32_t& word, std::uint32_t bits) { atomicOr(&word, bits); }
  __device__ void clear_bits(std::uint32_t& word, std::uint32_t bits) { atomicAnd(&word, ~bits); }
  __device__ bool acquire(std::uint32_t& word, std::uint32_t expected, std::uint32_t desired) {
    return acquire_in_block(&word, expected, desired);
  }
  __device__ void release(std::uint32_t& word, std::uint32_t value) {
    release_in_block(&word, value);
  }

  /// Called by the first thread of a subgroup at each stage of a request. Does nothing; teams that
  /// measure the stages replace it.
  __device__ void note(worker_stage /*reached*/) {}

  __device__ std::uint64_t now() const { return clock_ns(); }
  /// Pauses between two polls across the bus, if no message has come for `idle` nanoseconds and
  /// this is longer than spin_ns. One thread of each subgroup calls it. The pauses of several
  /// subgroups overlap, so that the lanes are polled more often than once per pause.
  __device__ void rest(std::uint64_t idle) {
    if (idle > spin_ns) __nanosleep(idle > 20 * spin_ns ? 4000 : 1000);
  }
  /// Pauses between two polls of a word that the team shares.
  __device__ void pause() {}
  /// Delays each subgroup by a different time, so that their polls begin one after the other. A
  /// load across the bus takes about a microsecond. With staggered polls, some subgroup begins a
  /// poll soon after a message has arrived.
  __device__ void stagger() { __nanosleep(subgroup() * 125); }

 private:
  static constexpr std::uint32_t warp = 32;
  static constexpr std::uint32_t all = 0xFFFFFFFF;
  static constexpr std::uint64_t spin_ns = 50'000;
};

} // namespace farcall::cuda
