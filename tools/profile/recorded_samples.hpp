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

/// Samples whose places in the code have no names yet. Each stack is there once, so memory grows
/// with the number of different stacks, and by some bytes for each sample.
struct recorded_samples {
  /// A process between two execs.
  struct program_run {
    pid_t process = 0;
    std::optional<std::size_t> parent; ///< in runs
    process_part part;
    std::string program;
    std::string machine; ///< empty: this one
    node_id node = no_node;
  };
  struct thread {
    std::size_t run = 0; ///< in runs
    pid_t number = 0;
    std::string name;
  };
  struct place {
    std::uint32_t module = modules::none;
    std::uint64_t offset = 0; ///< in its file; an address where it has none
    bool operator==(const place&) const = default;
  };
  struct stack {
    std::uint32_t place = 0; ///< in places
    std::uint32_t caller =
        profile_stack::none; ///< in stacks, at a lower place; none: the outermost
  };
  struct sample {
    std::uint64_t time = 0;   ///< as records give it
    std::uint32_t thread = 0; ///< in threads
    std::uint32_t stack = 0;  ///< in stacks
  };

  std::vector<program_run> runs;
  std::vector<thread> threads;
  std::vector<place> places;
  std::vector<stack> stacks;
  std::vector<sample> samples;
  std::uint64_t lost = 0;
  bool was_throttled = false;
};

/// Numbers of nodes, for the processes of one machine: a host starts its targets in the order of
/// their numbers. A launcher gives numbers itself, and what a launched host starts comes behind
/// those.
void number_nodes(recorded_samples& of);

/// Which threads and runs a part of recorded samples has.
enum class told : std::uint8_t { new_threads, all_threads };

/// Adds the next part of the same samples, whose numbers count from the first part on, as another
/// process has told it. False, and nothing is added, where something in it refers to what is not
/// there, or to a module that is none of so many files, or where a stack has more than 2000
/// functions.
[[nodiscard]] bool append(recorded_samples& to, recorded_samples part, told threads,
                          std::size_t files);

/// Where the names of places come from.
struct symbol_source {
  std::function<std::string(std::uint32_t module)> path;
  /// Of sorted offsets, each once, as symbolize() gives them.
  std::function<std::vector<symbol>(std::uint32_t module, std::span<const std::uint64_t> offsets)>
      symbols;
};

/// Those of files, which outlive it.
[[nodiscard]] symbol_source symbols_of(const modules& files);

/// Called now and then with how many of how many places have been looked up.
using lookup_progress = std::function<void(std::size_t, std::size_t)>;

/// Looks up all names, which takes seconds for large programs, and adds frames, stacks, threads and
/// samples to a profile. `start`: of the profile, as the records of these samples give times.
void add_samples(const recorded_samples& from, const symbol_source& names, std::uint64_t start,
                 const lookup_progress& tell, profile& into);

} // namespace farcall::tool
