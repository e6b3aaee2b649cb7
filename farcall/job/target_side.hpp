// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/failure_detector.hpp>
#include <farcall/job/meetings.hpp>
#include <farcall/job/members.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// A target's side of a job. It joins the job of the host, and makes other nodes known to this
/// process through the host. It also watches the host, and normally ends the process when the host
/// has ended.
class target_side {
 public:
  /// Type of a function that is called before the target joins. It throws error if the target
  /// cannot do what the settings of the job require, or cannot have so many workers; the error is
  /// sent to the host. `scheme` names the transport between this process and the host.
  using join_check = std::function<void(std::span<const std::byte> settings,
                                        std::string_view scheme, std::uint32_t workers)>;
  /// Joins a job as a target. The first function joins the job of the host at the other end of
  /// `to_host`, and the second one the job of the host that has started this process. Both throw
  /// error.
  [[nodiscard]] static std::unique_ptr<target_side> join(port_connection to_host,
                                                         std::span<const transport_entry> table,
                                                         const program_identity& program,
                                                         const join_check& check);
  [[nodiscard]] static std::unique_ptr<target_side> join(std::span<const transport_entry> table,
                                                         const program_identity& program,
                                                         const join_check& check);
  /// Joins the job whose host is process 0 of the group. Waits until all processes of the group
  /// join; at most for `timeout`, if the group's broadcast supports deadlines. Throws error.
  [[nodiscard]] static std::unique_ptr<target_side> join(const process_group& group,
                                                         std::chrono::milliseconds timeout,
                                                         std::span<const transport_entry> table,
                                                         const program_identity& program,
                                                         const join_check& check);

  target_side(port_connection host, std::optional<group_place> group);
  target_side(const target_side&) = delete;
  target_side& operator=(const target_side&) = delete;
  ~target_side();

  [[nodiscard]] const farcall::members& members() const noexcept { return members_; }
  /// Returns the settings that the layers above this one have sent from the host to this node.
  [[nodiscard]] std::span<const std::byte> settings() const noexcept { return settings_; }

  /// Sets the time for which a call without a deadline waits until this process knows another node.
  /// A node that is stopped does not reply in this time. Call before watch().
  void set_introduction_timeout(std::chrono::milliseconds timeout) noexcept {
    introduction_timeout_ = timeout;
  }

  /// Starts to watch the host. Call once, before the first lane is opened. Throws error, and
  /// std::system_error if no thread can be made.
  void watch(membership_events events);
  /// Stops watching the host. Threads that still wait until a node is known stop waiting.
  void stop();

  /// Tells the host why this process cannot go on with the job. Call this before the process ends.
  void give_up(const std::string& why);

  // ---- jobs of equals

  /// Ends this process after the connection of a lane between this node and `node` was lost,
  /// because the other node may wait forever for messages that were lost with it. Does nothing if
  /// the other node has failed already or the job is over. Any thread may call it.
  void note_lost_lane(node_id node);
  /// Reports that this node is quiet: it has nothing more to do in this round, unless messages of
  /// other nodes arrive. `was_active` is true if this node has sent something since the previous
  /// round. Once all nodes are quiet, the round ends: the next round begins, or the job is over if
  /// no node was active.
  void be_quiet(bool was_active);

 private:
  class fault_teller;

  /// A message for a transport of this process that has arrived before the transports were made.
  struct early_message {
    messages::transport what;
    std::vector<unique_fd> files;
  };

  /// Joins the job: exchanges messages with the host, and makes the transports. Blocks until the
  /// host reports that all nodes have joined.
  void enter(std::span<const transport_entry> table, const program_identity& program,
             const join_check& check);
  void take_part(const messages::hello& hello, std::span<const transport_entry> table,
                 const program_identity& program);
  [[nodiscard]] static std::unique_ptr<target_side> join_as(std::optional<group_place> group,
                                                            port_connection to_host,
                                                            std::span<const transport_entry> table,
                                                            const program_identity& program,
                                                            const join_check& check);

  // ---- getting to know others
  void ask_for(node_id node, time_point deadline);
  void meet_member(messages::member m);
  void take_failure(const messages::node_failed& what);
  void take_absence(const messages::absent& what);

  // ---- watching
  /// Watches the host on the failure detector's thread until `stop_signal` is readable.
  void watch_others(int stop_signal);
  void lose_host();
  /// Handles a message of the host that has arrived after this process has joined.
  void take(control_message message);
  /// Sends a message of one of this process's transports to the transport of the same scheme on the
  /// node `peer`; see transport_site::tell.
  bool tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
            std::span<const int> files) noexcept;

  farcall::members members_;
  roster& roster_; ///< the roster in members_
  membership_events events_;
  std::vector<std::byte> settings_;
  std::shared_ptr<void> link_; ///< keeps objects alive that to_host_ needs, such as a relay
  control_socket to_host_;
  /// Reports crashes to the host; set once the target has joined.
  std::unique_ptr<fault_teller> faults_;
  /// Pidfd of the host's process; empty if the system provides none.
  unique_fd host_process_;
  // Used only while joining.
  own_part own_;
  std::vector<node_memory> memory_;
  std::vector<early_message> early_;
  meetings meetings_;
  std::chrono::milliseconds introduction_timeout_{0};
  failure_detector detector_;
};

} // namespace farcall
