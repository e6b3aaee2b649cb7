#pragma once

#include <farcall/gpu/transport/gpu_instructions.hpp>
#include <farcall/offload/host_device.hpp>

#include <atomic>
#include <cstdint>

/// Loads and stores of words that a processor and a GPU share, the same for both. The names say the
/// order; the partner is always the same word's access on the other side of the bus.
namespace farcall::cuda {

#ifndef FARCALL_ON_GPU

inline std::uint32_t load_acquire(const std::uint32_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
}
inline std::uint64_t load_acquire(const std::uint64_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}
inline std::uint64_t load_relaxed(const std::uint64_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_relaxed);
}
/// Release, which costs nothing on x86-64: what a host wrote before a message is meant to be seen.
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
inline void store_relaxed_pair(std::uint64_t* words, std::uint64_t first,
                               std::uint64_t second) noexcept {
  store_relaxed(words, first);
  store_relaxed(words + 1, second);
}
inline void release_fence() noexcept { std::atomic_thread_fence(std::memory_order_release); }
inline void full_fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

#endif

} // namespace farcall::cuda
