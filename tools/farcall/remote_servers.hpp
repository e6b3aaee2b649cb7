#pragma once

#include "hosts.hpp"
#include "labelled_output.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// `farcall serve` on another machine, by way of ssh. It ends with this object.
class remote_server {
 public:
  /// Starts the command, and does not wait for it. `input` is what it is to read first, the key and
  /// what follows. Throws failed_run.
  remote_server(const host_entry& host, const std::vector<std::string>& command, std::string input);
  remote_server(const remote_server&) = delete;
  remote_server& operator=(const remote_server&) = delete;
  /// Its standard input ends, and so does it; killed when it takes too long.
  ~remote_server();

  /// What it says; readable when hear() has something to do.
  [[nodiscard]] int output() const noexcept { return output_.get(); }
  /// Goes on as far as it can without waiting; true once it serves. Throws failed_run that names
  /// the host where it does not, and may wait some seconds for its end before.
  [[nodiscard]] bool hear();
  /// URL of its targets, once it serves.
  [[nodiscard]] std::string url() const;
  /// Has it end, and does not wait.
  void let_end() noexcept { input_.reset(); }
  /// Waits for it until then, and kills it.
  void end_by(time_point deadline);
  /// Throws failed_run that names the host.
  [[noreturn]] void give_up(const std::string& what) const;

 private:
  void send_input() noexcept;
  /// The port of a line that says where it serves; 0: another line.
  [[nodiscard]] unsigned port_in(const std::string& line) const;
  [[nodiscard]] bool has_ended_by(time_point deadline);

  host_entry host_;
  std::string command_;
  pid_t pid_ = -1;
  int status_ = 0;
  unique_fd input_;
  std::string unsent_; ///< of its input
  unique_fd output_;
  std::string line_; ///< as far as it has come
  unsigned port_ = 0;
  std::thread forwarder_; ///< of what targets print
};

/// Those of one run, which start, and end, at the same time.
class remote_servers {
 public:
  /// `commands` are those of `hosts`. Throws failed_run.
  remote_servers(std::span<const host_entry> hosts,
                 std::span<const std::vector<std::string>> commands, const std::string& input);
  remote_servers(const remote_servers&) = delete;
  remote_servers& operator=(const remote_servers&) = delete;
  ~remote_servers();

  /// URLs of the targets of all, with commas between them, once all serve. Throws failed_run that
  /// names the first host whose server fails, or one that does not serve by the deadline.
  [[nodiscard]] std::string urls(time_point deadline);

 private:
  std::vector<std::unique_ptr<remote_server>> all_;
};

/// Runs a program as a child and returns its exit status as shells say it. Signals that ask us to
/// end go to the child; block_signals() comes before anything that starts threads. `prints_to`:
/// null, where we print.
[[nodiscard]] int run_to_end(const std::string& program, const std::vector<std::string>& words,
                             labelled_output* prints_to);
void block_signals();

} // namespace farcall::tool
