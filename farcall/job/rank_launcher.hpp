// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/transport/launcher.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace farcall {

/// Makes targets of the processes of a group that a launcher or MPI has started. The process with
/// rank N becomes node N. The host opens ports and broadcasts their names in the group; the
/// processes connect to these ports. At the end of the job, the processes are told to end, and the
/// launcher or MPI waits for their ends. To kill a process, this class closes the connection to it,
/// and the process then ends by itself. A process on this machine also gets SIGKILL, because a
/// stopped process would not end by itself. Used by one thread at a time.
class rank_launcher {
 public:
  /// An open port, and the scheme of the transport to which the port belongs.
  struct open_port {
    std::string scheme;
    std::unique_ptr<port> at;
  };

  /// Broadcasts the names of the ports, and waits until all processes of the group have received
  /// them. Throws start_failed. `group` must exist longer than this object.
  rank_launcher(const process_group& group, std::vector<open_port> ports, time_point deadline);
  ~rank_launcher();
  rank_launcher(const rank_launcher&) = delete;
  rank_launcher& operator=(const rank_launcher&) = delete;

  struct rank {
    std::unique_ptr<target_process> process;
    std::string scheme; ///< scheme of the port to which the process has connected
  };
  /// Waits until the process that becomes the node `node` has connected, and returns the process.
  /// Throws start_failed.
  [[nodiscard]] rank wait_for(node_id node, time_point deadline);

 private:
  friend class rank_process;
  struct losses;

  void take_arrivals(time_point deadline);

  const process_group* group_;
  std::vector<open_port> ports_;
  /// Processes that have connected, but that wait_for() has not returned yet.
  std::map<node_id, rank> come_;
  std::vector<bool> has_come_; ///< for each rank, true if it has connected
  std::shared_ptr<losses> losses_;
};

/// Called in each process of the group except the host: connects this process to the host. First
/// waits, at most until `deadline`, for the names of the host's ports, which arrive once all
/// processes of the group take part. Then tries the ports in the order of `table`, and returns the
/// first connection. Throws start_failed with the reason for each port that failed.
[[nodiscard]] port_connection connect_to_host(const process_group& group,
                                              std::span<const transport_entry> table,
                                              time_point deadline);

} // namespace farcall
