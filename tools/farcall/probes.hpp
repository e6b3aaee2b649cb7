#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace farcall::tool {

/// Whether this machine lets us do something, tried rather than looked up, and what to do when it
/// does not.
struct probe {
  std::string name;
  bool works = false;
  std::string detail; ///< what was found
  std::string advice; ///< empty when there is nothing to do
};

/// process_vm_readv between a process and its child, in both directions: sandboxes and Yama refuse
/// one or both.
[[nodiscard]] probe probe_cross_memory_attach();
[[nodiscard]] probe probe_membarrier();
[[nodiscard]] probe probe_futex();
[[nodiscard]] probe probe_pidfd();
[[nodiscard]] probe probe_memfd();

/// The pool of 2 MiB pages, and whether one can be had now.
[[nodiscard]] probe probe_huge_page_pool();
/// Transparent huge pages for private memory, and for shared memory.
[[nodiscard]] probe probe_transparent_huge_pages();
[[nodiscard]] probe probe_shared_transparent_huge_pages();

/// A limit of this process; `unlimited` values are the largest number.
struct limit {
  std::string name;
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
  std::string unit;
};

[[nodiscard]] std::vector<limit> process_limits();

/// "4096" or "unlimited".
[[nodiscard]] std::string limit_text(std::uint64_t value);

} // namespace farcall::tool
