// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/existing_launcher.hpp>
#include <farcall/job/launchers.hpp>
#include <farcall/job/members.hpp>
#include <farcall/job/membership_options.hpp>
#include <farcall/job/node_numbers.hpp>
#include <farcall/job/target.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace farcall {

class output_sink;

/// Starts the targets of a host, or takes processes that exist already, and makes all of them
/// members of the job.
class target_starter {
 public:
  using joined_function = std::function<void(const card&, const route&)>;

  /// Parts of the host_side that the starter uses. They must exist longer than the starter.
  struct site {
    membership_options& options;
    farcall::members& members;
    node_table<target>& targets; ///< filled by the starter
    output_sink& output;         ///< takes what targets print
    /// Called when a message of a target has arrived, if the target's socket has no descriptor for
    /// poll().
    std::function<void()> on_arrival;
  };

  /// Makes the roster and the table of targets. Starts no processes. Throws start_failed and
  /// setting_error.
  target_starter(site s, program_identity program);

  /// Returns how many processes a launcher or MPI has started, besides the host.
  [[nodiscard]] std::uint32_t ranks() const noexcept {
    return options_.group ? options_.group->size - 1 : 0;
  }

  /// Starts all targets, and waits until they have joined. Throws error.
  void start(time_point deadline);
  /// Starts more targets, and waits until they have joined. Calls `joined` for each of them just
  /// before it becomes known. Returns their numbers. Throws start_failed and setting_error. Any
  /// thread may call it.
  std::vector<node_id> add(const std::vector<target_url>& urls, time_point deadline,
                           const joined_function& joined);
  /// Adds the process at the other end of `socket` to the running job, and waits until the process
  /// has joined. It gets `workers` workers. Calls and throws like the other add(), and returns the
  /// number. Any thread may call it.
  [[nodiscard]] node_id add_existing(unique_fd socket, std::uint32_t workers, time_point deadline,
                                     const joined_function& joined);
  /// Notes that a target has failed, while its process may still exist. Another target may get its
  /// place later, and threads that add targets wait for this.
  void note_ending(node_id node) {
    if (numbers_) numbers_->note_ending(node);
  }
  /// Notes that the process of a failed target has ended. From now on another target may get its
  /// place. Any thread may call it.
  void note_ended(node_id node) {
    if (numbers_) numbers_->note_ended(node);
  }
  /// Returns the URL of a target that the job has started. Throws error for another node.
  [[nodiscard]] const target_url& url_of(node_id node) const;

 private:
  /// Targets that the roster does not have yet. An element is null once the table of targets has
  /// the target.
  using joiners = std::vector<std::unique_ptr<node_table<target>::entry>>;

  /// Waits until all processes that a launcher or MPI has started have connected to the host.
  void gather(time_point deadline);
  void start_processes(time_point deadline);
  void take_process(target& t, std::unique_ptr<target_process> process);
  void make_memories();
  void greet(node_id node, target& t, time_point deadline);
  [[nodiscard]] own_part describe_own_part();
  /// Makes the nodes that have no process of their own but live in the host's process.
  void host_nodes();
  /// Returns the URL of a process that something else than the job has started.
  [[nodiscard]] target_url url_of_process(std::uint32_t workers) const;
  /// Returns the numbers of the next `count` targets. Waits at most until the deadline for targets
  /// that are ending, if their places are needed. Throws start_failed if the job has too many
  /// nodes.
  [[nodiscard]] std::vector<node_id> find_numbers(std::size_t count, time_point deadline);
  /// Starts targets like add(). If `existing` is not null, it provides the processes of the
  /// targets, and nothing is started. Throws exceptions of any type.
  std::vector<node_id> start_more(const std::vector<target_url>& urls, existing_launcher* existing,
                                  time_point deadline, const joined_function& joined);
  /// Adds joined targets to the tables of nodes, so that all threads can use them as nodes of
  /// the job.
  void take_in(joiners& all, std::vector<card> cards, std::vector<node_memory> memories,
               const joined_function& joined);

  membership_options& options_;
  members& members_;
  roster& roster_; ///< the roster in members_
  node_table<target>& targets_;
  std::function<void()> on_arrival_;
  program_identity program_;
  launch_site site_;
  launchers launchers_;
  std::optional<existing_launcher> existing_;
  memory_files own_memory_;
  /// Mapped memory of nodes, kept until the transports that use it are made.
  std::vector<node_memory> mapped_;
  std::mutex adding_mutex_; ///< the thread that adds nodes holds this mutex
  /// Numbers for nodes that are added; set when the job has started.
  std::optional<node_numbers> numbers_;
};

} // namespace farcall
