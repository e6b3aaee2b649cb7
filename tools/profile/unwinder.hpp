// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "modules.hpp"
#include "perf_record.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace farcall::tool {

/// Finds the callers in a copy of a thread's stack, by the unwind tables that compilers make for
/// exceptions. Not thread-safe.
class unwinder {
 public:
  explicit unwinder(const modules& files);
  unwinder(const unwinder&) = delete;
  unwinder& operator=(const unwinder&) = delete;
  ~unwinder();

  /// Replaces the addresses of a sample by the addresses that unwinding finds. Keeps the old
  /// addresses if unwinding finds none, or if it finds no caller although the sample has callers.
  void unwind(const address_space& space, sample_record& sample);

 private:
  class session;

  [[maybe_unused]] const modules& files_;
  /// Unwinding sessions. The key is the version of a session's address space.
  std::map<unsigned, std::unique_ptr<session>> sessions_;
};

/// True if this program can unwind stacks: it has libdw, and knows the registers of its instruction
/// set.
[[nodiscard]] bool can_unwind();

} // namespace farcall::tool
