// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace farcall::tool {

/// MB/s of programs on NEC's vector card with host files in /dev/shm, by plain system calls and by
/// accelerated I/O. Source: the two charts in Erich Focht, "VEOS accelerated I/O"
/// (sx-aurora.github.io, 2019), read off to 5 %; iozone with 1 GiB per thread.
struct published_rates {
  double plain;
  double accelerated;
};

/// Returns the rates for records of 1 and 16 MiB by 1, 4 and 8 threads; empty for others.
[[nodiscard]] std::optional<published_rates> published_file_rates(bool writes, std::uint64_t record,
                                                                  std::uint64_t threads);

} // namespace farcall::tool
