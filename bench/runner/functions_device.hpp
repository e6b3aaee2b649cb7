// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "functions.hpp"

#include <bench/gpu/functions.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

/// Further functions that the benchmarks call on devices. gpu_code.cu names them all, so that they
/// are compiled for GPUs.
namespace farcall::tool::offloaded {

/// Sizes of payloads; device functions take values, so each size is a type.
using device_payloads = std::index_sequence<8, 32, 64, 256, 1024, 4096>;

template <std::size_t Bytes>
FARCALL_HOST_DEVICE std::uint64_t ends_of_block(const gpu::block<Bytes>& b) {
  return std::uint64_t{b.words[0]} + b.words[Bytes / sizeof(std::uint32_t) - 1];
}

/// Returns a payload whose ends add up to 2.
template <std::size_t Bytes>
[[nodiscard]] gpu::block<Bytes> some_payload() {
  gpu::block<Bytes> b{};
  b.words[0] = b.words[Bytes / sizeof(std::uint32_t) - 1] = 1;
  return b;
}

} // namespace farcall::tool::offloaded
