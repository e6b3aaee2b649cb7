#pragma once

#include "functions.hpp"

#include <bench/gpu/functions.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

/// What the benchmarks run on devices besides. bench_gpu.cu names all of it, so that GPUs have code
/// for it.
namespace farcall::tool::offloaded {

/// Devices take values, so each size of a payload is a type.
using device_payloads = std::index_sequence<8, 32, 64, 256, 1024, 4096>;

template <std::size_t Bytes>
FARCALL_HOST_DEVICE std::uint64_t ends_of_block(const gpu::block<Bytes>& b) {
  return std::uint64_t{b.words[0]} + b.words[Bytes / sizeof(std::uint32_t) - 1];
}

/// A payload whose ends add up to 2.
template <std::size_t Bytes>
[[nodiscard]] gpu::block<Bytes> some_payload() {
  gpu::block<Bytes> b{};
  b.words[0] = b.words[Bytes / sizeof(std::uint32_t) - 1] = 1;
  return b;
}

} // namespace farcall::tool::offloaded
