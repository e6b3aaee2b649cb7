#pragma once

#include "modules.hpp"
#include "perf_record.hpp"
#include "processes.hpp"
#include "profile.hpp"

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

/// Makes a profile of records. They come in the order of their times, so that each sample is
/// resolved with the mappings that its process had then. Each stack is kept once, so memory grows
/// with the number of different stacks, and by some bytes for each sample. One thread.
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

  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] bool was_throttled() const { return was_throttled_; }
  [[nodiscard]] std::size_t samples() const { return samples_.size(); }

  /// Called now and then with how many of how many places have been looked up.
  using progress = std::function<void(std::size_t, std::size_t)>;
  /// Looks up all names, which takes seconds for large programs; fills frames, stacks, threads and
  /// samples. `start`: of the profile, as records give times.
  void finish(const modules& files, std::uint64_t start, const progress& tell, profile& into);

 private:
  /// A process between two execs.
  struct program_run {
    pid_t process = 0;
    std::optional<std::size_t> parent; ///< in runs_
    process_part part;
    std::string program;
    address_space space;
    node_id node = no_node;
  };
  struct sampled_thread {
    std::size_t run = 0; ///< in runs_
    pid_t thread = 0;
    std::string name;
  };
  struct place {
    std::uint32_t module = modules::none;
    std::uint64_t offset = 0; ///< in its file; an address where it has none
    bool operator==(const place&) const = default;
  };
  struct place_hash {
    std::size_t operator()(const place& p) const noexcept {
      return std::hash<std::uint64_t>{}(p.offset * 0x9e3779b97f4a7c15U + p.module);
    }
  };
  struct raw_stack {
    std::uint32_t place = 0;  ///< in places_
    std::uint32_t caller = 0; ///< in raw_stacks_; profile_stack::none
  };
  struct raw_sample {
    std::uint64_t time = 0;
    std::uint32_t thread = 0; ///< in threads_
    std::uint32_t stack = 0;  ///< in raw_stacks_
  };

  [[nodiscard]] std::size_t run_of(pid_t process);
  [[nodiscard]] std::uint32_t thread_of(pid_t process, pid_t thread);
  [[nodiscard]] std::uint32_t place_at(const address_space& space, std::uint64_t address);
  void take_map(const perf_record& record, const map_record& map, std::uint32_t module);
  void take_name(const noted_record& noted, const name_record& name);
  void take_fork(const perf_record& record, const fork_record& made);
  void take_sample(const perf_record& record, const sample_record& sample);
  void number_nodes();
  void write_threads(profile& into) const;

  std::vector<program_run> runs_;
  std::unordered_map<pid_t, std::size_t> current_runs_;
  std::vector<sampled_thread> threads_;
  std::unordered_map<pid_t, std::uint32_t> current_threads_;
  std::unordered_map<pid_t, std::string> names_; ///< of threads that have not been sampled
  std::vector<place> places_;
  std::unordered_map<place, std::uint32_t, place_hash> place_numbers_;
  std::vector<raw_stack> raw_stacks_;
  std::unordered_map<std::uint64_t, std::uint32_t> stack_numbers_;
  std::vector<raw_sample> samples_;
  std::uint64_t lost_ = 0;
  bool was_throttled_ = false;
};

} // namespace farcall::tool
