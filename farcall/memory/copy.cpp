#include <farcall/memory/copy.hpp>

#include <farcall/base/bytes.hpp>

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace farcall {
namespace {

#if defined(__x86_64__)

// Every kernel walks four pages at once, a line or two from each in turn. One page after the other
// uses less of the memory's parallelism and loses a tenth or more from 128 MiB on.
constexpr std::size_t stride = 4096;
constexpr std::size_t block_bytes = 4 * stride;

// Copies `blocks` blocks; `to` starts on a cache line. Without the closing fence.
using block_kernel = void(unsigned char* to, const unsigned char* from, std::size_t blocks);

void copy_blocks_sse2(unsigned char* to, const unsigned char* from, std::size_t blocks) {
  for (; blocks != 0; --blocks, to += block_bytes, from += block_bytes) {
    for (std::size_t line = 0; line < stride; line += line_bytes) {
      for (std::size_t at = line; at < block_bytes; at += stride) {
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

[[gnu::target("avx")]] void copy_blocks_avx(unsigned char* to, const unsigned char* from,
                                            std::size_t blocks) {
  for (; blocks != 0; --blocks, to += block_bytes, from += block_bytes) {
    for (std::size_t line = 0; line < stride; line += line_bytes) {
      for (std::size_t at = line; at < block_bytes; at += stride) {
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

[[gnu::target("avx512f")]] void copy_blocks_avx512(unsigned char* to, const unsigned char* from,
                                                   std::size_t blocks) {
  for (; blocks != 0; --blocks, to += block_bytes, from += block_bytes) {
    for (std::size_t line = 0; line < stride; line += 2 * line_bytes) {
      for (std::size_t at = line; at < block_bytes; at += stride) {
        const __m512i a = _mm512_loadu_si512(from + at);
        const __m512i b = _mm512_loadu_si512(from + at + line_bytes);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), a);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + line_bytes), b);
      }
    }
  }
}

template <block_kernel* CopyBlocks>
void stream(void* to, const void* from, std::size_t bytes) noexcept {
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(target) % line_bytes;
  if (bytes >= block_bytes) {
    std::memcpy(target, source, head);
    target += head;
    source += head;
    bytes -= head;
    const std::size_t in_blocks = bytes - bytes % block_bytes;
    CopyBlocks(target, source, in_blocks / block_bytes);
    // Non-temporal stores are not ordered by a release store; the fence makes them so.
    _mm_sfence();
    target += in_blocks;
    source += in_blocks;
    bytes -= in_blocks;
  }
  if (bytes != 0) std::memcpy(target, source, bytes);
}

// Best first; a processor that has one of them has all that follow.
constexpr std::array<streaming_copy, 3> known{{{"avx512", stream<copy_blocks_avx512>},
                                               {"avx", stream<copy_blocks_avx>},
                                               {"sse2", stream<copy_blocks_sse2>}}};

std::size_t best_known() noexcept {
  __builtin_cpu_init(); // we may be called before the constructor that does it
  if (__builtin_cpu_supports("avx512f")) return 0;
  return __builtin_cpu_supports("avx") ? 1 : 2;
}

#else

void copy_with_libc(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

constexpr std::array<streaming_copy, 1> known{{{"memcpy", copy_with_libc}}};

std::size_t best_known() noexcept { return 0; }

#endif

} // namespace

std::span<const streaming_copy> streaming_copies() noexcept {
  static const std::size_t best = best_known();
  return std::span{known}.subspan(best);
}

void copy_bytes_streaming(void* to, const void* from, std::size_t bytes) noexcept {
  streaming_copies().front().copy(to, from, bytes);
}

} // namespace farcall
