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
  /// Returns the URL of a target that the job has started. Throws error for another node.
  [[nodiscard]] const target_url& url_of(node_id node) const;

 private:
  using joiners = std::vector<std::pair<node_id, std::unique_ptr<target>>>;

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
  /// Lowest node number that was never used; guarded by adding_mutex_.
  node_id next_node_ = 1;
};

} // namespace farcall
