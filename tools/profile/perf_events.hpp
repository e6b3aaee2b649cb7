// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perf_record.hpp"

#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// Way in which the callers of a sampled function are found.
enum class call_graph {
  none,           ///< only the running function, without callers
  frame_pointers, ///< the kernel follows the frame pointers
  dwarf,          ///< the kernel copies the top of the stack for the unwinder
};

/// Thrown if the kernel forbids this process to sample another one. The reasons are the setting
/// perf_event_paranoid, a seccomp filter, or that the sampled process belongs to another user.
struct perf_refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Opens events of perf_event_open, which sample threads and the threads and processes that these
/// will start, by CPU time. A thread has an event for each processor, because only such events may
/// be both inherited by children and written to a ring. All events of a processor write to the same
/// ring. Not thread-safe.
class perf_events {
 public:
  /// Creates the rings. Throws perf_refused or failed_run.
  perf_events(unsigned samples_per_second, call_graph stacks);
  perf_events(const perf_events&) = delete;
  perf_events& operator=(const perf_events&) = delete;
  ~perf_events();

  /// Starts sampling a thread, either now or at its next exec. Returns false if the thread has
  /// ended. Throws perf_refused or failed_run.
  [[nodiscard]] bool add(pid_t thread, bool from_exec);

  /// Returns descriptors, each of which becomes readable when a ring is a quarter full.
  [[nodiscard]] const std::vector<int>& readable() const { return readable_; }
  /// Takes all records from the rings. Records of one processor come in order, but there is no
  /// order among processors. Does not block.
  void read(const std::function<void(perf_record&)>& take);
  /// Returns the thread for which an event was opened. Samples with this event may also be of the
  /// thread's children, which inherit the event. Returns 0 if the event is unknown.
  [[nodiscard]] pid_t thread_of(std::uint64_t event) const;
  /// Stops sampling.
  void stop();

 private:
  class ring;

  unsigned samples_per_second_;
  call_graph stacks_;
  sample_layout layout_;
  std::map<int, std::unique_ptr<ring>> rings_; ///< by processor
  std::vector<int> readable_;
  std::vector<unique_fd> events_;
  std::unordered_map<std::uint64_t, pid_t> threads_;
  std::vector<std::byte> record_; ///< copy of a record whose end is at the beginning of the ring
};

/// Returns a mask of the registers that samples have with call_graph::dwarf. The bits are in the
/// order of the kernel's numbering. Returns 0 if this program cannot unwind stacks.
[[nodiscard]] std::uint64_t sampled_registers();

} // namespace farcall::tool
