#pragma once

#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

/// What is called: the same code by resident workers, by launches and by processors.
namespace farcall::gpu {

template <std::size_t Bytes>
struct block {
  std::uint32_t words[Bytes / sizeof(std::uint32_t)];
};

FARCALL_HOST_DEVICE inline void nothing() {}

/// As much out as in; the device has to look at all of it.
template <std::size_t Bytes>
FARCALL_HOST_DEVICE block<Bytes> raised(const block<Bytes>& b) {
  block<Bytes> r;
  for (std::size_t i = 0; i < Bytes / sizeof(std::uint32_t); ++i)
    r.words[i] = b.words[i] + 1;
  return r;
}

/// 64 bytes in, 8 out: what all kinds of calls are compared by.
FARCALL_HOST_DEVICE inline std::uint64_t sum_of(const block<64>& b) {
  std::uint64_t sum = 0;
  for (const std::uint32_t word : b.words)
    sum += word;
  return sum;
}

} // namespace farcall::gpu
