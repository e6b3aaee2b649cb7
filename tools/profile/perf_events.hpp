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

/// Where stacks come from.
enum class call_graph {
  none,           ///< the function that runs, without its callers
  frame_pointers, ///< the kernel follows them
  dwarf,          ///< the kernel copies the top of the stack; debug information tells the rest
};

/// The kernel refuses to let this process sample that one: by its setting perf_event_paranoid, a
/// filter of system calls, or because it is somebody else's.
struct perf_refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Events of perf_event_open that sample threads, and whatever these start, by the time that they
/// run: one for each thread and processor, since only such an event may be inherited by children
/// and have its samples in a ring. All events of a processor share a ring. One thread.
class perf_events {
 public:
  /// Makes the rings. Throws perf_refused or failed_run.
  perf_events(unsigned samples_per_second, call_graph stacks);
  perf_events(const perf_events&) = delete;
  perf_events& operator=(const perf_events&) = delete;
  ~perf_events();

  /// Samples a thread from now on, or from its next exec. False when it has ended. Throws
  /// perf_refused or failed_run.
  [[nodiscard]] bool add(pid_t thread, bool from_exec);

  /// Descriptors that become readable when a ring gets full.
  [[nodiscard]] const std::vector<int>& readable() const { return readable_; }
  /// Takes out what is in the rings: in order for each processor, not among them. Does not block.
  void read(const std::function<void(perf_record&)>& take);
  /// The thread that an event was opened for; others have inherited it.
  [[nodiscard]] pid_t thread_of(std::uint64_t event) const;
  /// No more samples.
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
  std::vector<std::byte> record_; ///< one that goes over the end of its ring
};

/// Registers that samples have with call_graph::dwarf, as the kernel numbers them: the bits of the
/// mask that it is given. Zero where this program cannot unwind stacks.
[[nodiscard]] std::uint64_t sampled_registers();

} // namespace farcall::tool
