// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/output_sink.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/target_url.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall {

/// The host's object for a started process that takes part in the job as a target. One thread uses
/// it at a time.
class target_process {
 public:
  target_process() = default;
  target_process(const target_process&) = delete;
  target_process& operator=(const target_process&) = delete;
  /// The destructors of derived classes end the process if it still runs.
  virtual ~target_process() = default;

  [[nodiscard]] control_socket& socket() noexcept { return socket_; }

  /// Returns a text for people that names the program: a path, a command line, or a server.
  [[nodiscard]] const std::string& program() const noexcept { return program_; }

  /// True if the process runs on this machine, so that its control socket carries descriptors.
  [[nodiscard]] virtual bool is_near() const noexcept = 0;

  /// Returns a descriptor that becomes readable when the process ends; -1 if the host notices the
  /// end only by the end of the control socket.
  [[nodiscard]] virtual int end_fd() const noexcept { return -1; }

  /// Waits for the process to end, at most until `deadline`, and returns how it ended. Returns
  /// nullopt if the process still runs at the deadline. If the host notices the end only by the end
  /// of the control socket, returns nullopt at once.
  [[nodiscard]] virtual std::optional<std::string> wait(time_point /*deadline*/) {
    return std::nullopt;
  }

  /// Returns the exit code, as child_process::exit_code() does, or nullopt if this machine's system
  /// does not know it.
  [[nodiscard]] virtual std::optional<int> exit_code() const noexcept { return std::nullopt; }

  /// Returns a text that says what has ended and how. In a message the text follows the node's
  /// name, such as "node 3". `exit_reason` is the reason that the target or its server has sent, or
  /// empty.
  [[nodiscard]] virtual std::string end_text(const std::string& exit_reason) = 0;

  /// Returns a likely reason why the process has not sent a message that was due. `what` names that
  /// message: "report" or "join".
  [[nodiscard]] virtual std::string silence_text(const char* what) = 0;

  /// Returns a text if the started process has exited with status 0, and another process that it
  /// has started, with number `joined`, is the target in its place. Returns nullopt otherwise. In a
  /// message the text follows the node's name, such as "node 3".
  [[nodiscard]] virtual std::optional<std::string> replacement_text(std::uint64_t /*joined*/) {
    return std::nullopt;
  }

  /// Called when the process has reported that it is a target.
  virtual void note_joined() noexcept {}

  /// Ends the process. Does not wait.
  virtual void kill() noexcept = 0;
  /// True if kill() always ends the process. False if kill() may only end the connection to the
  /// process. The process then ends by itself, once it runs and finds that its host is gone.
  [[nodiscard]] virtual bool can_be_killed() const noexcept { return true; }

  /// Reaps the process. Called after wait() has returned how it ended.
  virtual void reap() noexcept {}

 protected:
  void set(control_socket socket, std::string program) {
    socket_ = std::move(socket);
    socket_.close_on_fork();
    program_ = std::move(program);
  }

 private:
  control_socket socket_;
  std::string program_;
};

/// Parameters of all launchers of a job. The object outlives the launchers.
struct launch_site {
  std::span<const target_url> targets; ///< all targets of the job
  /// Program of the targets whose URL names none; empty for this process's program.
  std::string program;
  std::vector<std::string> arguments; ///< arguments of the targets, argv[0] included
  farcall::access access;             ///< credentials for servers
  std::chrono::milliseconds heartbeat_timeout{5'000};
  output_sink* output = nullptr; ///< receives the output of targets on other machines; may be null
  bool takes_all = false;        ///< true if `output` also receives the output of targets on this
                                 ///< machine
  /// Number of processes that something other than the host has started, and that become nodes 1,
  /// 2, ….
  std::uint32_t arrivals = 0;
};

/// A node for which a process is to be started. The caller keeps the URL alive.
struct wanted_target {
  node_id node = no_node;
  const target_url* url = nullptr;
};

/// Starts processes that become targets, or provides existing processes. One thread uses it at a
/// time.
class launcher {
 public:
  virtual ~launcher() = default;

  /// Starts the process that becomes `node`, and does not wait for the process's first message.
  /// Throws start_failed with the reason.
  [[nodiscard]] virtual std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                              time_point deadline) = 0;

  /// Starts the processes of all nodes in their order, like start(). A launcher that needs replies
  /// from other machines waits for all of them at once. If one process cannot be started, none is
  /// left running.
  [[nodiscard]] virtual std::vector<std::unique_ptr<target_process>>
  start_all(std::span<const wanted_target> all, time_point deadline) {
    std::vector<std::unique_ptr<target_process>> started;
    started.reserve(all.size());
    for (const wanted_target& wanted : all)
      started.push_back(start(wanted.node, *wanted.url, deadline));
    return started;
  }

  /// Returns data that this launcher has for the transport of the same scheme on node `node`, in
  /// that transport's own format. Returns an empty vector if it has none. Called after start().
  [[nodiscard]] virtual std::vector<std::byte> setup(node_id /*node*/) const { return {}; }

  /// Opens the port to which processes that something other than the host has started can connect.
  /// Returns null if the launcher has no such port. Called once. The port outlives the launcher.
  /// Throws error.
  [[nodiscard]] virtual std::unique_ptr<port> open_port() { return nullptr; }
};

} // namespace farcall
