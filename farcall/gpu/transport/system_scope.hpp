// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/gpu/transport/gpu_instructions.hpp>

#include <atomic>
#include <bit>
#include <cstdint>

/// Loads and stores of words that a processor and a GPU share. The file has these functions for
/// processors, and gpu_instructions.hpp has functions of the same names for GPUs. A name states the
/// memory order. The partner of an access is always the access of the same word on the other side
/// of the bus.
namespace farcall::cuda {

#ifndef FARCALL_ON_GPU

/// Number of loads that a thread issues together: one on a processor, which overlaps loads by
/// itself; a GPU needs several.
inline constexpr std::uint32_t loads_at_a_time = 1;

inline std::uint32_t load_acquire(const std::uint32_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
}
inline std::uint64_t load_acquire(const std::uint64_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}
inline std::uint64_t load_relaxed(const std::uint64_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_relaxed);
}
/// Release, so that the host's writes before a message are visible with the message. Release costs
/// nothing on x86-64.
inline void store_relaxed(std::uint64_t* word, std::uint64_t value) noexcept {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
inline void store_release(std::uint32_t* word, std::uint32_t value) noexcept {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
inline void store_release(std::uint64_t* word, std::uint64_t value) noexcept {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
inline void load_acquire_pair(const std::uint64_t* words, std::uint64_t& first,
                              std::uint64_t& second) noexcept {
  first = load_acquire(words);
  second = load_acquire(words + 1);
}
inline void load_relaxed_pair(const std::uint64_t* words, std::uint64_t& first,
                              std::uint64_t& second) noexcept {
  // Acquire instead of relaxed, because acquire costs nothing on x86-64.
  load_acquire_pair(words, first, second);
}
inline void store_relaxed_pair(std::uint64_t* words, std::uint64_t first,
                               std::uint64_t second) noexcept {
  store_relaxed(words, first);
  store_relaxed(words + 1, second);
}
inline void release_fence() noexcept { std::atomic_thread_fence(std::memory_order_release); }
inline void full_fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

[[nodiscard]] inline bool test_and_set(std::uint32_t& word) noexcept {
  return std::atomic_ref(word).exchange(1, std::memory_order_relaxed) != 0;
}
[[nodiscard]] inline std::uint32_t lowest_bit(std::uint32_t bits) noexcept {
  return static_cast<std::uint32_t>(std::countr_zero(bits));
}
[[nodiscard]] inline std::uint32_t count_of_bits(std::uint32_t bits) noexcept {
  return static_cast<std::uint32_t>(std::popcount(bits));
}

#endif

} // namespace farcall::cuda
