// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "processes.hpp"
#include "profile.hpp"
#include "symbolizer.hpp"

#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// Samples whose code locations have no names yet. A stack is stored only once, even if it was
/// sampled often. So the memory grows with the number of different stacks, plus a few bytes for
/// each sample.
struct recorded_samples {
  /// The time in which a process runs one program, from one exec to the next.
  struct program_run {
    pid_t process = 0;
    std::optional<std::size_t> parent; ///< index in runs
    process_part part;
    std::string program;
    std::string machine; ///< empty for this machine
    node_id node = no_node;
  };
  struct thread {
    std::size_t run = 0; ///< index in runs
    pid_t number = 0;
    std::string name;
  };
  struct place {
    std::uint32_t module = modules::none;
    std::uint64_t offset = 0; ///< offset in the module's file, or the address if the module is none
    bool operator==(const place&) const = default;
  };
  struct stack {
    std::uint32_t place = 0; ///< index in places
    std::uint32_t caller =
        /// Index in `stacks` of the stack of the callers, which is lower than this stack's own
        /// index. It is none for the outermost function.
        profile_stack::none;
  };
  struct sample {
    std::uint64_t time = 0;   ///< in the records' clock
    std::uint32_t thread = 0; ///< index in threads
    std::uint32_t stack = 0;  ///< index in stacks
  };

  std::vector<program_run> runs;
  std::vector<thread> threads;
  std::vector<place> places;
  std::vector<stack> stacks;
  std::vector<sample> samples;
  std::uint64_t lost = 0;
  bool was_throttled = false;
};

/// Assigns node numbers to the processes of one machine. A process that a launcher has started
/// keeps the number that the launcher has given it. The targets of a host are numbered from 1 in
/// the order in which they were started. If a launcher has started the host, its targets get the
/// numbers after the launcher's numbers.
void number_nodes(recorded_samples& of);

/// Threads and program runs in a part of recorded samples. The part has either only the new ones
/// since the previous part (new_threads), or all of them again (all_threads).
enum class told : std::uint8_t { new_threads, all_threads };

/// Appends a part of samples that another process has sent in several parts. Indices in a part
/// count from the beginning of the first part. Returns false, and appends nothing, if the part
/// refers to a missing item or to a module whose index is not below `files`, or if a stack has more
/// than 2000 functions.
[[nodiscard]] bool append(recorded_samples& to, recorded_samples part, told threads,
                          std::size_t files);

/// Functions that return the paths of modules, and the names of code locations.
struct symbol_source {
  std::function<std::string(std::uint32_t module)> path;
  /// Looks up offsets in a module. Offsets and result are as in symbolize(), so the offsets must be
  /// sorted and unique.
  std::function<std::vector<symbol>(std::uint32_t module, std::span<const std::uint64_t> offsets)>
      symbols;
};

/// Returns a source that reads names from `files`, which must outlive the source.
[[nodiscard]] symbol_source symbols_of(const modules& files);

/// Type of a function that shows the progress of a lookup. It is called from time to time with the
/// number of finished places and the number of all places.
using lookup_progress = std::function<void(std::size_t, std::size_t)>;

/// Adds samples to a profile, with their frames, stacks and threads. First looks up all names,
/// which takes seconds for large programs. `start` is the profile's start, measured by the clock of
/// the records.
void add_samples(const recorded_samples& from, const symbol_source& names, std::uint64_t start,
                 const lookup_progress& tell, profile& into);

} // namespace farcall::tool
