// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

/// Records that the kernel writes into the rings of perf_event_open, as values. Their layout
/// follows from the attributes of the events that perf_events opens.
namespace farcall::tool {

/// A sample of a thread in user mode.
struct sample_record {
  /// Addresses of the functions, innermost first. Callers have return addresses.
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> registers; ///< empty if the event does not sample registers
  /// Copy of the stack, upwards from the stack pointer. It is empty if the event copies no stack.
  std::vector<std::byte> stack;
};

/// Record of a new executable mapping.
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
  bool is_exec = false; ///< true if an exec has changed the name, so that another program begins
};

/// Record of a new process or thread, with its creator.
struct fork_record {
  std::int32_t parent_process = 0;
  std::int32_t parent_thread = 0;
};

struct exit_record {};

struct lost_record {
  std::uint64_t samples = 0;
};

/// Record that the kernel has stopped an event for a while, because it has sampled too often.
struct throttle_record {};

struct perf_record {
  std::uint64_t time = 0;  ///< CLOCK_MONOTONIC, in nanoseconds
  std::uint64_t event = 0; ///< id of the event that wrote the record
  std::int32_t process = 0;
  std::int32_t thread = 0;
  std::variant<sample_record, map_record, name_record, fork_record, exit_record, lost_record,
               throttle_record>
      what;
};

/// Fields that the samples of an event have, besides the fields that all samples have.
struct sample_layout {
  bool has_callers = false;
  bool has_stack = false;
  unsigned registers = 0; ///< number of registers, if has_stack
};

/// Reads the record at the beginning of `bytes`. Never reads more than the length that the record
/// states. Returns false for an unneeded kind of record, and for a record that is too short for its
/// kind.
[[nodiscard]] bool read_record(std::span<const std::byte> bytes, const sample_layout& layout,
                               perf_record& into);

} // namespace farcall::tool
