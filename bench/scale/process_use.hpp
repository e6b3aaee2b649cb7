#pragma once

#include <cstddef>
#include <vector>

namespace farcall::tool {

/// What a process of this machine has taken of it.
struct process_use {
  double private_kib = 0; ///< memory that no file or segment backs
  double shared_kib = 0;  ///< its part of pages of segments: each counts once over all processes
  double page_tables_kib = 0; ///< the kernel's, for what it has mapped
  double descriptors = 0;
  double threads = 0;
};

/// Zeros for a process that has gone.
[[nodiscard]] process_use use_of(int pid);

/// What each of them has taken, on average.
[[nodiscard]] process_use average_use(const std::vector<int>& pids);

/// Bytes that this process has from malloc, in all its arenas.
[[nodiscard]] double heap_bytes();

} // namespace farcall::tool
