#pragma once

#include <farcall/memory/counter_reader.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A process of this machine that counts its part in a job.
struct counted_process {
  pid_t process = 0; ///< as this process knows it
  ino_t file = 0;    ///< of its counters: a process may be in several jobs
  uid_t owner = 0;   ///< of the counters
  ino_t numbers = 0; ///< the namespace that it has its own number in, as of a container
  std::string program;
  std::shared_ptr<const counter_reader> counters;
};

/// Those in one of the process's files, whose path below /proc this is; nothing for another kind of
/// file, and where a child of a fork has those of its parent. Does not wait, whatever has been
/// opened there. Throws error for another version's,
/// and for damaged ones.
[[nodiscard]] std::optional<counted_process> counters_in(pid_t process, const std::string& path);

/// Counters that cannot be read: of another version of farcall, or damaged.
struct unreadable_counters {
  std::size_t number = 0; ///< of them
  std::string why;        ///< of one of them, for people

  void add(const std::exception& e);
};

/// Adds those of one process: one for each job that it is in. Nothing that it does makes this wait.
void add_counters_of(pid_t process, std::vector<counted_process>& to, unreadable_counters& others);

/// Those whose counters this process may read: all of its user. Processes that end meanwhile are
/// left out, and so are those of `others`, which is added to. Nothing that those processes do makes
/// this wait. Throws error when there is no /proc.
[[nodiscard]] std::vector<counted_process> find_counted_processes(unreadable_counters& others);

/// Processor time and memory of a process.
struct process_usage {
  double processor_seconds = 0; ///< of all its threads, since it began
  std::uint64_t resident_bytes = 0;
};

/// All zero for one that has ended.
[[nodiscard]] process_usage usage_of(pid_t process);

} // namespace farcall::tool
