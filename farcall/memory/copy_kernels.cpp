// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/bytes.hpp>
#include <farcall/memory/copy_kernels.hpp>

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace farcall {
namespace {

void copy_with_libc(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)

void copy_with_movsb(void* to, const void* from, std::size_t bytes) noexcept {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

// Kernels that write past the caches. Some of them write one page after the other. The others write
// four pages at the same time, one or two lines of each page in turn. With four pages, some
// processors use more of the memory's parallelism, while others lose two thirds of their speed.
constexpr std::size_t small_page = 4096;

// Copies `blocks` blocks of `Pages` pages each, without the fence at the end. `to` must start at a
// cache line.
using block_kernel = void(unsigned char* to, const unsigned char* from, std::size_t blocks);

template <std::size_t Pages>
void copy_blocks_sse2(unsigned char* to, const unsigned char* from, std::size_t blocks) {
  for (; blocks != 0; --blocks, to += Pages * small_page, from += Pages * small_page) {
    for (std::size_t line = 0; line < small_page; line += line_bytes) {
      for (std::size_t at = line; at < Pages * small_page; at += small_page) {
        const auto* const in = reinterpret_cast<const __m128i*>(from + at);
        auto* const out = reinterpret_cast<__m128i*>(to + at);
        const __m128i a = _mm_loadu_si128(in);
        const __m128i b = _mm_loadu_si128(in + 1);
        const __m128i c = _mm_loadu_si128(in + 2);
        const __m128i d = _mm_loadu_si128(in + 3);
        _mm_stream_si128(out, a);
        _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c);
        _mm_stream_si128(out + 3, d);
      }
    }
  }
}

template <std::size_t Pages>
[[gnu::target("avx")]] void copy_blocks_avx(unsigned char* to, const unsigned char* from,
                                            std::size_t blocks) {
  for (; blocks != 0; --blocks, to += Pages * small_page, from += Pages * small_page) {
    for (std::size_t line = 0; line < small_page; line += line_bytes) {
      for (std::size_t at = line; at < Pages * small_page; at += small_page) {
        const auto* const in = reinterpret_cast<const __m256i*>(from + at);
        auto* const out = reinterpret_cast<__m256i*>(to + at);
        const __m256i a = _mm256_loadu_si256(in);
        const __m256i b = _mm256_loadu_si256(in + 1);
        _mm256_stream_si256(out, a);
        _mm256_stream_si256(out + 1, b);
      }
    }
  }
}

template <std::size_t Pages>
[[gnu::target("avx512f")]] void copy_blocks_avx512(unsigned char* to, const unsigned char* from,
                                                   std::size_t blocks) {
  for (; blocks != 0; --blocks, to += Pages * small_page, from += Pages * small_page) {
    for (std::size_t line = 0; line < small_page; line += 2 * line_bytes) {
      for (std::size_t at = line; at < Pages * small_page; at += small_page) {
        const __m512i a = _mm512_loadu_si512(from + at);
        const __m512i b = _mm512_loadu_si512(from + at + line_bytes);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), a);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + line_bytes), b);
      }
    }
  }
}

template <block_kernel* CopyBlocks, std::size_t Pages>
void stream(void* to, const void* from, std::size_t bytes) noexcept {
  constexpr std::size_t block_bytes = Pages * small_page;
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(target) % line_bytes;
  if (bytes >= block_bytes + head) {
    if (head != 0) std::memcpy(target, source, head);
    target += head;
    source += head;
    bytes -= head;
    const std::size_t in_blocks = bytes - bytes % block_bytes;
    CopyBlocks(target, source, in_blocks / block_bytes);
    // Fence, because a release store does not order non-temporal stores.
    _mm_sfence();
    target += in_blocks;
    source += in_blocks;
    bytes -= in_blocks;
  }
  if (bytes != 0) std::memcpy(target, source, bytes);
}

constexpr copy_kernel libc{"memcpy", copy_with_libc};
constexpr copy_kernel movsb{"rep movsb", copy_with_movsb};

// All kernels: memcpy, "rep movsb", and then the streaming kernels in the order of their vectors'
// width, the widest first. A processor that has vectors of one width also has all narrower vectors.
constexpr std::array<copy_kernel, 8> known{
    {libc,
     movsb,
     {"AVX-512 streaming", stream<copy_blocks_avx512<1>, 1>},
     {"AVX-512 streaming, 4 pages at once", stream<copy_blocks_avx512<4>, 4>},
     {"AVX streaming", stream<copy_blocks_avx<1>, 1>},
     {"AVX streaming, 4 pages at once", stream<copy_blocks_avx<4>, 4>},
     {"SSE2 streaming", stream<copy_blocks_sse2<1>, 1>},
     {"SSE2 streaming, 4 pages at once", stream<copy_blocks_sse2<4>, 4>}}};
constexpr std::size_t tried = 4;

/// The known kernels, except kernels whose vectors this processor lacks.
struct kernels {
  kernels() noexcept {
    // Call this first, because the constructor that initialises the CPU model may run later.
    __builtin_cpu_init();
    std::size_t lacking = 4;
    if (__builtin_cpu_supports("avx512f")) {
      lacking = 0;
    } else if (__builtin_cpu_supports("avx")) {
      lacking = 2;
    }
    for (const copy_kernel& k : known) {
      const auto at = static_cast<std::size_t>(&k - known.data());
      if (at < 2 || at >= 2 + lacking) all[count++] = k;
    }
  }
  std::array<copy_kernel, known.size()> all{};
  std::size_t count = 0;
};

#else

struct kernels {
  std::array<copy_kernel, 1> all{{{"memcpy", copy_with_libc}}};
  std::size_t count = 1;
};
constexpr std::size_t tried = 1;

#endif

const kernels& of_this_processor() noexcept {
  static const kernels found;
  return found;
}

} // namespace

std::span<const copy_kernel> copy_kernels() noexcept { return all_copy_kernels().first(tried); }

const copy_kernel& streaming_copy() noexcept {
  // Return the first streaming kernel, which follows memcpy and rep movsb.
  return all_copy_kernels()[tried > 2 ? 2 : 0];
}

std::span<const copy_kernel> all_copy_kernels() noexcept {
  return std::span(of_this_processor().all).first(of_this_processor().count);
}

} // namespace farcall
