// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "modules.hpp"
#include "perf_record.hpp"
#include "processes.hpp"
#include "recorded_samples.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A record, together with facts that /proc reported when the record was read. The process may have
/// ended before the record is used.
struct noted_record {
  perf_record record;
  std::uint64_t number = 0;             ///< order in which records with the same time were read
  std::uint32_t module = modules::none; ///< of a map_record
  /// Role of the process in a job. It is present only if the record is a name_record of an exec.
  std::optional<process_part> part;
};

/// Collects records, and resolves the addresses of each sample with the mappings that its process
/// had at that time. So the records must be passed in the order of their times. Not thread-safe.
class recording {
 public:
  /// Adds a process that was already running when the sampling began, with its role in the job. The
  /// functions add_thread() and add_mapping() add the process's threads and mappings.
  void add_process(pid_t process, pid_t parent, const process_part& part,
                   const std::string& program);
  void add_thread(pid_t process, pid_t thread, const std::string& name);
  void add_mapping(pid_t process, const map_record& mapping, std::uint32_t module);

  void take(const noted_record& noted);
  /// Returns the current mappings of a process. Returns null if the process is unknown.
  [[nodiscard]] const address_space* space_of(pid_t process) const;

  [[nodiscard]] const recorded_samples& recorded() const { return recorded_; }
  /// Assigns node numbers to the processes of this machine, and returns the recorded samples.
  [[nodiscard]] recorded_samples finish();

 private:
  struct place_hash {
    std::size_t operator()(const recorded_samples::place& p) const noexcept {
      return std::hash<std::uint64_t>{}(p.offset * 0x9e3779b97f4a7c15U + p.module);
    }
  };

  [[nodiscard]] std::size_t run_of(pid_t process);
  [[nodiscard]] std::uint32_t thread_of(pid_t process, pid_t thread);
  [[nodiscard]] std::uint32_t place_at(const address_space& space, std::uint64_t address);
  void take_map(const perf_record& record, const map_record& map, std::uint32_t module);
  void take_name(const noted_record& noted, const name_record& name);
  void take_fork(const perf_record& record, const fork_record& made);
  void take_sample(const perf_record& record, const sample_record& sample);
  /// Adds a program run of a process. Each exec of the process begins a new run.
  std::size_t add_run(recorded_samples::program_run run, address_space space);

  recorded_samples recorded_;
  std::vector<address_space> spaces_; ///< parallel to recorded_.runs
  std::unordered_map<pid_t, std::size_t> current_runs_;
  std::unordered_map<pid_t, std::uint32_t> current_threads_;
  std::unordered_map<pid_t, std::string> names_; ///< names of threads that have no sample yet
  std::unordered_map<recorded_samples::place, std::uint32_t, place_hash> place_numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> stack_numbers_;
};

} // namespace farcall::tool
