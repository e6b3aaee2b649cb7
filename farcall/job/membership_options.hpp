// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/target_url.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall {

class output_receiver;
struct transport_entry;

/// Exclusive upper bound of the places of nodes in jobs that this process starts from now on. Only
/// tests need a lower bound than max_node_places.
extern std::size_t places_of_new_jobs;

/// Options with which a host starts its targets. Most of their values come from job_options.
struct membership_options {
  /// Table of all transports. It must exist longer than the host's side.
  std::span<const transport_entry> transports;
  std::vector<target_url> targets;
  /// Sockets, namely one end of a socket pair for each process of this machine that existed before
  /// the job and becomes a target. The process has the other end. These targets get the last node
  /// numbers. See existing_launcher.
  std::vector<unique_fd> existing;
  /// The processes that a launcher or MPI has started together. This process is the first of them.
  /// The other ones become the nodes from number 1 on; the nodes of `targets` follow.
  std::optional<process_group> group;
  /// Number of workers of each target in `existing` and `group`.
  std::uint32_t workers = 1;
  /// Program of targets whose URL names none; if empty, the program of this process.
  std::string program;
  /// Arguments with which targets are started, from argv[0] on.
  std::vector<std::string> arguments;
  std::chrono::milliseconds start_timeout{0}; ///< time in which all targets must join
  /// Time in which targets must finish when the job ends; afterwards they are killed.
  std::chrono::milliseconds stop_timeout{0};
  /// Exclusive upper bound of the places of nodes.
  std::size_t node_places = places_of_new_jobs;
  std::uint32_t lane_bytes = 0; ///< size of a lane's ring, in bytes; a power of two
  /// Most memory that a node can share, in bytes; if 0, as much as the machine has.
  std::uint64_t heap_bytes = 0;
  /// Credentials for servers; if empty, connections to servers are unencrypted.
  farcall::access access;
  /// If a server has sent nothing for this time, it counts as failed.
  std::chrono::milliseconds heartbeat_timeout{0};
  std::chrono::milliseconds peer_timeout{
      0}; ///< time after which a silent target is killed; if 0, none is
  /// Bytes that layers above this one have made, and that the host sends to each target.
  std::vector<std::byte> settings;
  /// True for a job of equals, in which every node runs its own main function. All nodes end such a
  /// job together (see be_quiet()), and each goes on after it. If one node ends earlier, the host
  /// ends all others.
  bool are_equals = false;
  bool survives = false; ///< true if, in a job of equals, the other nodes go on when one node ends
  /// If true, all targets print through this process, which writes the node's number before each
  /// line. If false, only targets on other machines print through this process, and their lines are
  /// not changed.
  bool labels = false;
  /// Receiver of the lines that targets print. If it is not null, all targets that the host starts
  /// print through this process. The program keeps it alive until the job has ended.
  output_receiver* output = nullptr;

  /// Returns true if targets on this machine print through this process, like those on others.
  [[nodiscard]] bool takes_output() const noexcept { return labels || output != nullptr; }
};

} // namespace farcall
