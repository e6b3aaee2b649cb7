// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/mount_program.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace farcall::tool {

/// Result of a test whether this machine has a certain capability. If the capability is missing,
/// there may be advice to the user.
struct probe {
  std::string name;
  bool works = false;
  std::string detail; ///< details of the result
  std::string advice; ///< advice to the user; empty if there is no need for action
};

/// Tests whether a process can read its child's memory with process_vm_readv, and the child its
/// parent's memory. Both directions are tested, because sandboxes and Yama may refuse one of them
/// only.
[[nodiscard]] probe probe_cross_memory_attach();
[[nodiscard]] probe probe_membarrier();
[[nodiscard]] probe probe_futex();
[[nodiscard]] probe probe_pidfd();
[[nodiscard]] probe probe_memfd();

/// Tests whether targets on this machine can mount files of their hosts. Otherwise they use a
/// preloaded library.
[[nodiscard]] probe probe_mounts(const mount_check& found);
/// Tests whether the system itself reads and writes files of a mount whose host is on this machine.
[[nodiscard]] probe probe_passthrough(const mount_check& found);
/// Tests whether the system offers mounts whose requests come by io_uring, which farcall does not
/// use.
[[nodiscard]] probe probe_mounts_by_ring(const mount_check& found);

/// Tests whether OpenMP programs can use targets as devices: whether this farcall has the plugin,
/// and which versions of LLVM's libomptarget the loader finds here.
[[nodiscard]] probe probe_openmp();

/// Tests whether the machine has a pool of 2 MiB pages, and whether a page of it is free now.
[[nodiscard]] probe probe_huge_page_pool();
/// The next two functions test transparent huge pages, the first one in private memory, and the
/// second one in shared memory.
[[nodiscard]] probe probe_transparent_huge_pages();
[[nodiscard]] probe probe_shared_transparent_huge_pages();

/// A resource limit of this process. If a value is unlimited, it is the largest number.
struct limit {
  std::string name;
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
  std::string unit;
};

[[nodiscard]] std::vector<limit> process_limits();

/// Returns "4096" or "unlimited".
[[nodiscard]] std::string limit_text(std::uint64_t value);

} // namespace farcall::tool
