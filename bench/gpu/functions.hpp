// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>

#include <cstddef>
#include <cstdint>

/// Functions that are called: the same code for resident workers, launches and processors.
namespace farcall::gpu {

template <std::size_t Bytes>
struct block {
  std::uint32_t words[Bytes / sizeof(std::uint32_t)];
};

FARCALL_HOST_DEVICE inline void nothing() {}

/// Returns as many bytes as it takes; the device has to read all of them.
template <std::size_t Bytes>
FARCALL_HOST_DEVICE block<Bytes> raised(const block<Bytes>& b) {
  block<Bytes> r;
  for (std::size_t i = 0; i < Bytes / sizeof(std::uint32_t); ++i)
    r.words[i] = b.words[i] + 1;
  return r;
}

/// Takes 64 bytes and returns 8: all kinds of calls are compared by it.
FARCALL_HOST_DEVICE inline std::uint64_t sum_of(const block<64>& b) {
  std::uint64_t sum = 0;
  for (const std::uint32_t word : b.words)
    sum += word;
  return sum;
}

} // namespace farcall::gpu
