#pragma once

#include <bench/runner/local_memory.hpp>

#include <cstddef>
#include <optional>

namespace farcall::tool {

/// The way of a copy, seen from the host.
enum class direction { to_target, from_target };

/// MiB/s that NEC's vector card reached over PCIe by the "4dma" manager of VEOS, with one thread
/// and memory of the host that was neither registered nor pinned. Empty for lengths that were not
/// measured. To the card: Erich Focht, "Testing VEOS with accelerated DMA and VE profiling"
/// (sx-aurora.github.io, VEOS 1.3.2-4dma). From it: README.md of efocht/vhcall-memtransfer-bm at
/// b228961. Huge pages are those of 2 MiB of the pool, of the host.
[[nodiscard]] std::optional<double> published_mib_per_second(direction way, pages kind,
                                                             std::size_t bytes);

} // namespace farcall::tool
