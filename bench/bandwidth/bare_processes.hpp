// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "content.hpp"

#include <bench/runner/local_memory.hpp>
#include <tools/common/pinning.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace farcall::tool {

/// Copies between private memory of two processes on two cores, without the library: the limit of
/// copies of unregistered memory. Both processes make a part of each copy.
///
/// The constructor forks, so create the object before any thread or job is started.
class bare_processes {
 public:
  enum class direction : std::uint32_t { to_peer, from_peer };
  enum class way : std::uint32_t {
    attach, ///< each process copies one half by process_vm_readv() or process_vm_writev()
    ring    ///< one process copies into slots of shared memory, and the other out of them
  };

  explicit bare_processes(core_pair cores);
  ~bare_processes();
  bare_processes(const bare_processes&) = delete;
  bare_processes& operator=(const bare_processes&) = delete;
  bare_processes(bare_processes&&) = delete;
  bare_processes& operator=(bare_processes&&) = delete;

  /// Wakes the second process, and keeps it waiting busily until sleep().
  void wake();
  void sleep();

  // ---- between wake() and sleep() ----

  /// Gives the second process a block in place of its last one.
  void allocate(std::size_t bytes, pages kind);
  void release() { allocate(0, pages::small); }
  /// Fills the second process's block.
  void fill(std::uint64_t round);
  /// Copies all of `here`, which has the block's length, to the block, or the block to `here`.
  /// Throws failed_run if the system refuses the access to the other process.
  void copy(std::span<std::byte> here, direction to, way by);
  /// Returns the offset of the first wrong word in the second process's block, or its length.
  [[nodiscard]] std::size_t first_wrong(block_content content);

 private:
  struct process;
  std::unique_ptr<process> process_;
};

} // namespace farcall::tool
