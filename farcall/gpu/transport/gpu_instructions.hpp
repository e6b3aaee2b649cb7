// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>

#include <cstdint>

/// GPU instructions that C++ cannot express, in PTX. This file holds all of farcall's PTX, so that
/// GPUs of another vendor need only a second version of this file.
///
/// In the names of these functions, "system" means that they work on memory that the GPU shares
/// with other devices, such as the host.
namespace farcall::cuda {

// ---- functions that processors have, too, in system_scope.hpp

#ifdef FARCALL_ON_GPU

/// Number of loads that a thread issues together. Several loads across the bus take as long as one
/// load if they are in flight together.
inline constexpr std::uint32_t loads_at_a_time = 4;

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
__device__ inline std::uint64_t load_relaxed(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
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
/// Loads two words by one access. Each of the words is loaded as a whole. But one word may have
/// been loaded earlier than the other.
__device__ inline void load_acquire_pair(const std::uint64_t* words, std::uint64_t& first,
                                         std::uint64_t& second) {
  asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(words)
               : "memory");
}
/// Loads two words by one relaxed access, so that several loads can be in flight at a time.
__device__ inline void load_relaxed_pair(const std::uint64_t* words, std::uint64_t& first,
                                         std::uint64_t& second) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(words)
               : "memory");
}
__device__ inline void store_relaxed_pair(std::uint64_t* words, std::uint64_t first,
                                          std::uint64_t second) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first), "l"(second)
               : "memory");
}
/// Orders all earlier writes of this thread, and all writes that it has seen, before its next
/// write. A thread that sees this next write also sees the earlier ones.
__device__ inline void release_fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
/// Orders all accesses before the fence before all accesses after it, for every processor and GPU.
__device__ inline void full_fence() { asm volatile("fence.sc.sys;" ::: "memory"); }

/// Sets the word to 1. Returns true if it was 1 before.
__device__ inline bool test_and_set(std::uint32_t& word) { return atomicExch(&word, 1U) != 0; }

/// Returns the number of the lowest bit that is set. At least one bit must be set.
__device__ inline std::uint32_t lowest_bit(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1;
}
__device__ inline std::uint32_t count_of_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__popc(bits));
}
#endif

#ifdef __CUDACC__

// ---- access to the shared memory of a block

__device__ inline std::uint32_t shared_address(const void* of) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(of));
}
/// Replaces `expected` by `desired` if the word holds `expected`. Acquire, so that everything is
/// visible that the writer of `expected` did before.
__device__ inline bool acquire_in_block(std::uint32_t* word, std::uint32_t expected,
                                        std::uint32_t desired) {
  std::uint32_t found;
  asm volatile("atom.acquire.cta.shared.cas.b32 %0, [%1], %2, %3;"
               : "=r"(found)
               : "r"(shared_address(word)), "r"(expected), "r"(desired)
               : "memory");
  return found == expected;
}
__device__ inline void release_in_block(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(shared_address(word)), "r"(value)
               : "memory");
}

// ---- the thread

/// Returns the time of a clock that all threads of the device share, in nanoseconds.
__device__ inline std::uint64_t clock_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}
/// Returns the bytes of dynamic shared memory that the kernel was launched with.
__device__ inline std::uint32_t dynamic_shared_bytes() {
  std::uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}
/// Ends the kernel with an error. The device cannot be used afterwards.
__device__ inline void trap() { asm volatile("trap;"); }

#endif

} // namespace farcall::cuda
