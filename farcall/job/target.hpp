// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/job/memory_files.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/launcher.hpp>
#include <farcall/transport/target_url.hpp>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall {

class hosted_node;

/// A message that waits because the socket of its target is full.
struct notice {
  control kind{};
  std::vector<std::byte> body;
  /// Node whose memory descriptors are sent together with the message; no_node if there are none.
  node_id memory_of = no_node;
};

/// A fault, such as a crash, that a target has reported to the host.
struct told_fault {
  /// If the names of the functions have not arrived by this time, the target's end is reported
  /// without them.
  time_point names_until;
  /// If the target is still writing its fault report at this time, the report counts as stuck.
  time_point report_until;
  int signal = 0;
  std::string where{};
  bool is_whole = false; ///< no more reports follow
};

/// How and why a target has ended, as far as the host knows.
struct target_ending {
  bool is_told_to_stop = false;
  /// True if the node has sent its reason for leaving a job of equals.
  bool has_left = false;
  std::string reason;              ///< reason that the target, or its server, has sent
  std::optional<told_fault> fault; ///< the fault that ends the target
  /// True if the host has reported the end, while the target's process still writes its fault
  /// report.
  bool is_reporting = false;
  std::string failure; ///< why it has failed
  /// Exit code that the server of the target has reported; negative if it has reported none.
  int server_code = -1;

  /// Returns the exit code of the target. Takes it from the process if the host can see it there,
  /// otherwise from the signal of the fault, otherwise from the server's report. Returns a negative
  /// number if there is none.
  [[nodiscard]] int exit_code(const target_process& process) const {
    return process.exit_code().value_or(fault ? 128 + fault->signal : server_code);
  }
};

/// A target of the host: a process, or a node that lives in the host's process. Unless a comment
/// says otherwise, only one thread uses a member: the failure detector's thread, and before and
/// after its run the thread that starts and ends the target.
struct target {
  target_url url;
  /// True if something else than the job has started the target's process, so that the job cannot
  /// restart it.
  bool is_existing = false;
  /// The node if it lives in this process; the members own it. Null if the target is a process.
  hosted_node* hosted = nullptr;
  /// Process of the target; null for a node that lives in this process.
  std::unique_ptr<target_process> process;
  /// True if the target and the other nodes of this machine map each other's memory.
  bool maps_memory = false;
  memory_files memory;
  std::deque<notice> notices; ///< not sent yet
  bool is_closed = false;     ///< true if nothing more is read from the socket
  target_ending ending;

  // Flags that other threads set as requests to the failure detector's thread.
  std::atomic<bool> is_removed{false}; ///< true if the target must finish its calls and end
  /// True if a removed target has not ended before the deadline.
  std::atomic<bool> is_overdue{false};
  /// True if, in a job of equals, the connection of a lane between the target and the host was
  /// lost.
  std::atomic<bool> has_lost_lane{false};
  /// True once the host has handled the end of the target. Other threads read it, too.
  std::atomic<bool> is_lost{false};

  /// Sends the message to the process without waiting. Returns false if the process does not read
  /// its socket, or if file descriptors cannot be sent to it. Any thread may call it. Throws error.
  template <class Message>
  [[nodiscard]] bool send_now(const Message& m, std::span<const int> files) {
    const std::lock_guard guard(mutex_);
    return (files.empty() || process->is_near()) &&
           messages::send(process->socket(), m, clock::now(), files);
  }
  void kill() noexcept {
    const std::lock_guard guard(mutex_);
    process->kill();
  }
  void close() noexcept {
    const std::lock_guard guard(mutex_);
    process->socket().close();
  }

 private:
  /// Guards the socket: other threads send through it, while close() and kill() may close it.
  std::mutex mutex_;
};

} // namespace farcall
