#pragma once

#include <cstdint>
#include <optional>

namespace farcall::tool {

/// MB/s that programs on NEC's vector card reached with files of the host in /dev/shm, by the
/// system calls as they were, and with accelerated I/O: read off the two charts of Erich Focht,
/// "VEOS accelerated I/O" (sx-aurora.github.io, 2019), to 5 %. iozone with 1 GiB per thread.
struct published_rates {
  double plain;
  double accelerated;
};

/// Empty where it was not measured: records of 1 and 16 MiB, by 1, 4 and 8 threads.
[[nodiscard]] std::optional<published_rates> published_file_rates(bool writes, std::uint64_t record,
                                                                  std::uint64_t threads);

} // namespace farcall::tool
