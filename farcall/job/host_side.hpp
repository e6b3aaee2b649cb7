// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/equals_rounds.hpp>
#include <farcall/job/failure_detector.hpp>
#include <farcall/job/heartbeats.hpp>
#include <farcall/job/introductions.hpp>
#include <farcall/job/members.hpp>
#include <farcall/job/membership_options.hpp>
#include <farcall/job/output_collector.hpp>
#include <farcall/job/target.hpp>
#include <farcall/job/target_starter.hpp>
#include <farcall/transport/control_messages.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall {

/// The host's side of a job. It starts the targets, introduces them to each other, watches them and
/// ends them.
class host_side {
 public:
  /// Starts the targets and waits until all have joined. If one fails, ends all targets and throws
  /// start_failed, which names the node and the reason.
  [[nodiscard]] static std::unique_ptr<host_side> launch(membership_options o,
                                                         const program_identity& program);

  host_side(membership_options o, const program_identity& program);
  host_side(const host_side&) = delete;
  host_side& operator=(const host_side&) = delete;
  ~host_side();

  [[nodiscard]] const farcall::members& members() const noexcept { return members_; }

  /// Starts to watch the targets for failures. Call once, before the first lane is opened. Throws
  /// error, and std::system_error if no thread can be made.
  void watch(membership_events events);
  /// Ends the targets: stops watching them, tells them to finish, and waits until they have ended.
  /// Kills targets that do not end within the stop timeout. Calls `meanwhile` every millisecond
  /// while it waits, so that the host can serve targets that need it to finish.
  void shut_down(const std::function<void()>& meanwhile);

  /// Returns how long targets may take to finish.
  [[nodiscard]] std::chrono::milliseconds stop_timeout() const noexcept {
    return options_.stop_timeout;
  }

  /// Starts the targets `urls` in addition, while the job goes on, and waits until they have
  /// joined. Returns their numbers. If one of them fails, ends all new targets and throws
  /// start_failed or setting_error. Any thread may call it, after watch().
  std::vector<node_id> add(const std::vector<target_url>& urls, time_point deadline);
  /// Adds a process of this machine that exists already, and waits until it has joined. The process
  /// has the other end of `socket`, and runs handlers on `workers` threads. Returns its number.
  /// Throws start_failed and setting_error. Any thread may call it, after watch().
  [[nodiscard]] node_id add_existing(unique_fd socket, std::uint32_t workers, time_point deadline);
  /// Tells a target to finish the calls that have arrived and to end, and waits for its end. Kills
  /// the target at the deadline. Calls `meanwhile` every millisecond while it waits. Returns at
  /// once if the target has failed. Throws error for the host, and for a node without a process.
  /// Any thread may call it, after watch().
  void remove(node_id node, time_point deadline, const std::function<void()>& meanwhile);
  /// Returns the URL from which the target was started. Throws error for a target that was not
  /// started by the job.
  [[nodiscard]] const target_url& url_of(node_id node) const { return starter_.url_of(node); }

  /// Passes the open file `file` to a target on this machine. `number` tells the target to which of
  /// its requests the file belongs. Returns false if the target is on another machine, does not
  /// read its socket, or has ended. Never blocks. Any thread may call it.
  bool send_file(node_id to, std::uint64_t number, int file) noexcept;

  // ---- jobs of equals

  /// Used in a job of equals: reports why this process cannot go on with the job, and ends the
  /// other nodes. Does nothing in other jobs, and after the first call. Call it before this process
  /// ends.
  void give_up(const std::string& why);
  /// Ends the node's process after the connection of a lane between the host and the node was lost,
  /// because the node may wait forever for messages that were lost with it. Does nothing if the
  /// node has failed already or the job is over. Any thread may call it.
  void note_lost_lane(node_id node);
  /// Sets whether the other nodes of a job of equals go on if a node ends without having closed the
  /// job. Any thread may call it.
  void survive(bool goes_on) { survives_.store(goes_on, std::memory_order_relaxed); }
  /// Reports that the host is quiet: it has nothing more to do in this round, unless messages of
  /// other nodes arrive. `was_active` is true if the host has sent something since the previous
  /// round. Once all nodes are quiet, the round ends: the next round begins, or the job is over if
  /// no node was active.
  void be_quiet(bool was_active);
  /// Waits until the processes of all other nodes have ended, once the job is over. Returns the
  /// first exit status that was not zero, or zero if there was none.
  [[nodiscard]] int wait_for_others();

 private:
  void start(time_point deadline);
  /// Watches the targets on the failure detector's thread until `stop_signal` is readable.
  void watch_others(int stop_signal);
  /// Sends a message of one of the host's transports to the transport of the same scheme on the
  /// node `peer`; see transport_site::tell.
  bool tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
            std::span<const int> files) noexcept;
  template <class Message>
  bool tell_now(node_id node, const Message& m, std::span<const int> files) noexcept;

  // ---- introducing
  /// Handles the request of the target `asker`, which wants to use the node `other`.
  void introduce(node_id asker, node_id other);
  void send(const std::optional<introduction>& next);

  // ---- watching
  /// Wakes the failure detector's thread, so that it checks all targets.
  void look_around() noexcept;
  /// Clears the signal that look_around() has set. Call this before checking the targets, so that a
  /// later signal is not lost.
  void note_look_around() noexcept;
  /// Handles the flags that remove() sets: tells a removed target to finish, and kills it if
  /// remove() has marked it as overdue.
  void end_removed(node_id node, target& t);
  void end_after_lost_lane(node_id node, target& t);
  /// Receives at most `most` messages of the target. Returns false if the target's socket is
  /// closed.
  [[nodiscard]] bool receive(node_id node, target& t, int most);
  /// Receives messages of the target, and returns what receive() returns. If the socket is closed
  /// and the process has no descriptor that reports its end, also handles the end of the target.
  bool receive_or_lose(node_id node, target& t);
  /// Kills the target. If the process has no descriptor that reports its end, also handles the end
  /// of the target.
  void kill(node_id node, target& t);
  void take_message(node_id from, target& t, control_message message);
  void pass_on(node_id from, const messages::transport& m, std::vector<unique_fd> files);
  /// Returns true if the target's process has ended. Never waits, and so may return false for a
  /// process whose end the host cannot see yet.
  [[nodiscard]] bool has_ended(node_id node, target& t);
  /// Handles the end of the target, whose process or socket has ended.
  void lose(node_id node, target& t);
  /// If the target has crashed, and has reported enough about the crash, reports the target's end.
  /// From then on the target counts as ended, although its process still writes its fault report.
  void end_faulted(node_id node, target& t);
  /// Returns true if the target has ended and has no fault report to finish, so that it need not be
  /// watched any more.
  [[nodiscard]] bool has_gone(node_id node, const target& t) const noexcept {
    return roster_.has_failed(node) && !t.ending.is_reporting;
  }
  [[nodiscard]] std::string end_text(node_id node, target& t) const;
  /// Marks the node as failed. If the other nodes must be told of its end, also calls `node_failed`
  /// of the host's events, and returns true.
  [[nodiscard]] bool tell_end(node_id node, target& t);
  void finish_end(node_id node, target& t, bool is_told);
  /// Sends a heartbeat to all targets. Kills each target that has been silent for the peer timeout.
  void send_heartbeats();
  /// Tells each node that knows the node `node` that it has ended. In a job of equals, tells all
  /// nodes.
  void spread_end(node_id node, const target& t, std::span<const node_id> peers);
  template <class Message>
  void notify(target& to, const Message& m, node_id memory_of = no_node) {
    to.notices.push_back({Message::kind, m.encode(), memory_of});
    send_notices(to);
  }
  void send_notices(target& to) noexcept;
  [[nodiscard]] bool send_notice(target& to, const notice& n) noexcept;

  // ---- functions for jobs of equals, defined in equals.cpp
  /// If all nodes are quiet in the current round, begins the next round, or ends the job if no node
  /// was active.
  void end_round();
  /// Handles a target's message with its reason for leaving the job of equals. Does nothing if the
  /// job has told the target to stop.
  void take_leave(node_id node, target& t);
  /// Handles the end of a node in a job of equals; `why` is the reason. If the job has started and
  /// the node had not closed it, ends all nodes, this process included, unless the job goes on when
  /// a node ends. Returns true if the other nodes must be told.
  [[nodiscard]] bool lose_equal(node_id node, target& t, const std::string& why);
  [[noreturn]] void end_all(int code) noexcept;
  /// Kills all targets except `spared`. If `spared` is the host, kills all targets.
  void kill_all_but(node_id spared) noexcept;
  /// Waits until the target has written its fault report and has ended. If this process has started
  /// the other nodes, kills them first.
  void await_report(node_id node, target& t);
  static void warn_of_report(node_id node);
  /// If give_up() was called, kills all targets. Runs on the failure detector's thread.
  void follow_giving_up() noexcept;

  // ---- ending
  void stop_hosted();
  /// Returns true if the start of the job has failed and this target has not joined. Killing such a
  /// target before the stop timeout loses no work. Returns false for targets that the job has not
  /// started, and in a debugger.
  [[nodiscard]] bool may_be_killed_early(node_id node, const target& t) const noexcept;
  void kill_rest();

  farcall::members members_;
  roster& roster_; ///< the roster in members_
  membership_options options_;
  membership_events events_;
  std::atomic<bool> survives_;
  log::limited_log lost_messages_{"more messages of nodes were lost"};
  output_collector output_;    ///< output of the targets
  node_table<target> targets_; ///< without the host
  target_starter starter_;
  introductions introductions_;
  heartbeats heartbeats_;
  equals_rounds rounds_;  ///< rounds in which a job of equals ends; unused in other jobs
  unique_fd look_around_; ///< eventfd of look_around()
  std::mutex lost_mutex_;
  /// Notified each time that the end of a node was handled; belongs to lost_mutex_.
  std::condition_variable lost_;
  bool is_started_ = false; ///< all targets have joined
  /// Number of the last round in which the host has reported that it is quiet.
  std::atomic<std::uint32_t> own_quiet_in_{0};
  /// True if the host has said in this report that it had sent something since the previous round.
  std::atomic<bool> own_was_active_{false};
  std::atomic<bool> has_given_up_{false};
  /// True once the failure detector's thread has killed all targets because of give_up(). Only this
  /// thread writes it, with lost_mutex_ held.
  bool are_killed_ = false;
  /// First nonzero exit code of a target; guarded by lost_mutex_.
  int exit_code_ = 0;
  bool is_shut_down_ = false;
  failure_detector detector_;
};

} // namespace farcall
