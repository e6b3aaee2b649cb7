// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hosts.hpp"
#include "labelled_output.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// A server (`farcall serve`) on another machine. The constructor starts the server by ssh, and the
/// destructor ends it.
class remote_server {
 public:
  /// Starts the command, and does not wait until the server is ready. `input` is written to the
  /// command's standard input; it has the key, and then the exported variables. Throws failed_run.
  remote_server(const host_entry& host, const std::vector<std::string>& command, std::string input);
  remote_server(const remote_server&) = delete;
  remote_server& operator=(const remote_server&) = delete;
  /// Ends the server by closing its standard input. If the server does not end within some seconds,
  /// kills the ssh command.
  ~remote_server();

  /// Returns the descriptor from which the command's output is read. If it is readable, receive()
  /// must be called.
  [[nodiscard]] int output() const noexcept { return output_.get(); }
  /// Reads the output that is there, without waiting for more. Returns true if the server is ready.
  /// If the server has failed, waits some seconds at most for its end, and throws failed_run that
  /// names the host.
  [[nodiscard]] bool receive();
  /// Returns the URL of the server's targets. May be called if receive() has returned true.
  [[nodiscard]] std::string url() const;
  /// Tells the server to end, and does not wait for it.
  void let_end() noexcept { input_.reset(); }
  /// Waits until the command has ended. At the deadline, kills the command.
  void end_by(time_point deadline);
  /// Throws failed_run with a message that has the host's name and `what`.
  [[noreturn]] void give_up(const std::string& what) const;

 private:
  void send_input() noexcept;
  /// Returns the server's port if the line says at which address the server listens. Returns 0 for
  /// other lines. Throws failed_run if the address has no valid port.
  [[nodiscard]] unsigned port_in(const std::string& line) const;
  [[nodiscard]] bool has_ended_by(time_point deadline);

  host_entry host_;
  std::string command_;
  pid_t pid_ = -1;
  int status_ = 0;
  unique_fd input_;
  std::string unsent_; ///< rest of its input
  unique_fd output_;
  std::string line_; ///< incomplete line
  unsigned port_ = 0;
  library_thread forwarder_; ///< forwards the targets' output
};

/// All servers that a `farcall run --hosts` uses. They are started together, and ended together.
class remote_servers {
 public:
  /// Starts a server for each host. `commands[i]` is the command for `hosts[i]`, and all servers
  /// get the same `input`. Throws failed_run.
  remote_servers(std::span<const host_entry> hosts,
                 std::span<const std::vector<std::string>> commands, const std::string& input);
  remote_servers(const remote_servers&) = delete;
  remote_servers& operator=(const remote_servers&) = delete;
  ~remote_servers();

  /// Waits until all servers are ready, and returns the URLs of their targets, separated by commas.
  /// Throws failed_run, which names a host, if its server fails or is not ready at the deadline.
  /// Also throws it if a signal asks this process to end.
  [[nodiscard]] std::string urls(time_point deadline);

 private:
  std::vector<std::unique_ptr<remote_server>> all_;
};

/// Runs a program as a child, and returns its exit status as in shells. Forwards SIGINT, SIGTERM
/// and SIGHUP to the child, except a SIGINT from the terminal. block_signals() must have been
/// called before any thread was started. If `prints_to` is null, the child has the output of this
/// process.
[[nodiscard]] int run_to_end(const std::string& program, const std::vector<std::string>& words,
                             labelled_output* prints_to);
void block_signals();

} // namespace farcall::tool
