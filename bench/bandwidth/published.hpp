// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/runner/local_memory.hpp>

#include <cstddef>
#include <optional>

namespace farcall::tool {

/// Direction of a copy, seen from the host.
enum class direction { to_target, from_target };

/// Returns MiB/s between NEC's vector card and host memory over PCIe, with the "4dma" manager of
/// VEOS, one thread, and host memory that was neither registered nor pinned. Empty for unmeasured
/// lengths. Sources: to the card, Erich Focht, "Testing VEOS with accelerated DMA and VE profiling"
/// (sx-aurora.github.io, VEOS 1.3.2-4dma); from the card, README.md of efocht/vhcall-memtransfer-bm
/// at b228961. Huge pages are the host's 2 MiB pages of the pool.
[[nodiscard]] std::optional<double> published_mib_per_second(direction way, pages kind,
                                                             std::size_t bytes);

} // namespace farcall::tool
