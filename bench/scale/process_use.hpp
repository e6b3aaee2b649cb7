// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace farcall::tool {

/// Resources of this machine that a process uses.
struct process_use {
  double private_kib = 0;     ///< memory without a file or segment
  double shared_kib = 0;      ///< its share of segments' pages (proportional set size)
  double page_tables_kib = 0; ///< page tables of its mappings, in the kernel
  double descriptors = 0;
  double threads = 0;
};

/// Returns the use; zeros for a process that has gone.
[[nodiscard]] process_use use_of(int pid);

/// Returns the average over these processes.
[[nodiscard]] process_use average_use(const std::vector<int>& pids);

/// Returns the bytes that this process has from malloc, in all its arenas.
[[nodiscard]] double heap_bytes();

} // namespace farcall::tool
