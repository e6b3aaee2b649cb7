#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

/// What the kernel writes into the rings of perf_event_open, as values. The layout is that of the
/// events which perf_events opens.
namespace farcall::tool {

/// A thread ran here. In user mode only.
struct sample_record {
  std::vector<std::uint64_t> addresses; ///< innermost first; those of callers are return addresses
  std::vector<std::uint64_t> registers; ///< empty unless asked for
  std::vector<std::byte> stack;         ///< from the stack pointer on; the same
};

/// An executable mapping was made.
struct map_record {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::string path;
};

struct name_record {
  std::string name;
  bool is_exec = false; ///< another program begins
};

/// The process or thread of the record was made.
struct fork_record {
  std::int32_t parent_process = 0;
  std::int32_t parent_thread = 0;
};

struct exit_record {};

struct lost_record {
  std::uint64_t samples = 0;
};

/// The kernel stopped an event for a while, since there were too many.
struct throttle_record {};

struct perf_record {
  std::uint64_t time = 0;  ///< CLOCK_MONOTONIC, in nanoseconds
  std::uint64_t event = 0; ///< number of the event, of those that were opened
  std::int32_t process = 0;
  std::int32_t thread = 0;
  std::variant<sample_record, map_record, name_record, fork_record, exit_record, lost_record,
               throttle_record>
      what;
};

/// How an event's samples look.
struct sample_layout {
  bool has_callers = false;
  bool has_stack = false;
  unsigned registers = 0; ///< number of them, with has_stack
};

/// Reads the record that `bytes` begins with, without more than its own bytes. Returns false for
/// kinds that are of no interest, and for one that is too short for its kind.
[[nodiscard]] bool read_record(std::span<const std::byte> bytes, const sample_layout& layout,
                               perf_record& into);

} // namespace farcall::tool
