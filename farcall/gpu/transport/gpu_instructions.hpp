#pragma once

#include <farcall/offload/host_device.hpp>

#include <cstdint>

/// What code on a GPU does by instructions that C++ has no words for, in PTX. Nothing else of
/// farcall has any: GPUs of another maker need a second version of this file alone.
///
/// "System" is everything that shares memory with the GPU, the host included.
namespace farcall::cuda {

// ---- the same as for processors, see system_scope.hpp

#ifdef FARCALL_ON_GPU

/// A load across the bus takes as long as several that are under way together.
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
/// Two words by one access. Each is whole; that both are of one time is not promised.
__device__ inline void load_acquire_pair(const std::uint64_t* words, std::uint64_t& first,
                                         std::uint64_t& second) {
  asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(words)
               : "memory");
}
/// The same, which says nothing about other words. Several can be under way at a time.
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
/// What this thread has written, or seen written, is visible to whoever sees what it writes next.
__device__ inline void release_fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
/// Everything before is visible everywhere before anything after.
__device__ inline void full_fence() { asm volatile("fence.sc.sys;" ::: "memory"); }

/// The word is 1 afterwards. True when it was before.
__device__ inline bool test_and_set(std::uint32_t& word) { return atomicExch(&word, 1U) != 0; }

/// Number of the lowest bit that is set; there is one.
__device__ inline std::uint32_t lowest_bit(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1;
}
__device__ inline std::uint32_t count_of_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__popc(bits));
}
#endif

#ifdef __CUDACC__

// ---- shared memory of a block

__device__ inline std::uint32_t shared_address(const void* of) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(of));
}
/// `desired` takes the place of `expected`, if that is there. What the thread that wrote that has
/// done before is seen by this one then.
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

/// Nanoseconds of a clock that all threads of the device share.
__device__ inline std::uint64_t clock_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}
/// Bytes of shared memory that the kernel was launched with.
__device__ inline std::uint32_t dynamic_shared_bytes() {
  std::uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}
/// Ends the kernel, and with it the use of the device.
__device__ inline void trap() { asm volatile("trap;"); }

#endif

} // namespace farcall::cuda
