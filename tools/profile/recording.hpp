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

/// What has been read of the records, and what /proc said when they were read: later the process
/// may be gone.
struct noted_record {
  perf_record record;
  std::uint64_t number = 0;             ///< of those of one time, the first comes first
  std::uint32_t module = modules::none; ///< of a map_record
  std::optional<process_part> part;     ///< of a name_record that tells of an exec
};

/// Takes records. They come in the order of their times, so that each sample is resolved with the
/// mappings that its process had then. One thread.
class recording {
 public:
  /// A process that was there before: where its code is, and its part in the job.
  void add_process(pid_t process, pid_t parent, const process_part& part,
                   const std::string& program);
  void add_thread(pid_t process, pid_t thread, const std::string& name);
  void add_mapping(pid_t process, const map_record& mapping, std::uint32_t module);

  void take(const noted_record& noted);
  /// Where its code is now; null for a process that is not known.
  [[nodiscard]] const address_space* space_of(pid_t process) const;

  [[nodiscard]] const recorded_samples& recorded() const { return recorded_; }
  /// Numbers the nodes of this machine; gives it away.
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
  /// Another program of a process.
  std::size_t add_run(recorded_samples::program_run run, address_space space);

  recorded_samples recorded_;
  std::vector<address_space> spaces_; ///< of recorded_.runs
  std::unordered_map<pid_t, std::size_t> current_runs_;
  std::unordered_map<pid_t, std::uint32_t> current_threads_;
  std::unordered_map<pid_t, std::string> names_; ///< of threads that have not been sampled
  std::unordered_map<recorded_samples::place, std::uint32_t, place_hash> place_numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> stack_numbers_;
};

} // namespace farcall::tool
