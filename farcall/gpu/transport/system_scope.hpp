#pragma once

#include <farcall/offload/host_device.hpp>

#include <atomic>
#include <cstdint>

/// Loads and stores of words that a processor and a GPU share, the same for both. The names say the
/// order; the partner is always the same word's access on the other side of the bus.
namespace farcall::cuda {

#ifdef FARCALL_ON_GPU

__device__ inline std::uint32_t load_acquire(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline std::uint64_t load_acquire(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void store_relaxed(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline void store_release(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ inline void store_release(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
/// Two words by one access. Each is whole; that both are of one time is not promised.
__device__ inline void load_acquire_pair(const std::uint64_t* words, std::uint64_t& first,
                                         std::uint64_t& second) {
  asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(words)
               : "memory");
}
__device__ inline void store_relaxed_pair(std::uint64_t* words, std::uint64_t first,
                                          std::uint64_t second) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first), "l"(second)
               : "memory");
}
/// What this thread has written, or seen written, is visible to whoever sees what it writes next.
__device__ inline void release_fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
/// Everything before is visible everywhere before anything after.
__device__ inline void full_fence() { asm volatile("fence.sc.sys;" ::: "memory"); }

#else

inline std::uint32_t load_acquire(const std::uint32_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
}
inline std::uint64_t load_acquire(const std::uint64_t* word) noexcept {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
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
