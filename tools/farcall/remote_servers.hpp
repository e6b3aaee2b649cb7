#pragma once

#include "hosts.hpp"
#include "labelled_output.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// `farcall serve` on another machine, by way of ssh. It ends with this object.
class remote_server {
 public:
  /// Starts the command, which is given the key on its standard input. Throws failed_run.
  remote_server(const host_entry& host, const std::vector<std::string>& command,
                const std::string& key_line);
  remote_server(const remote_server&) = delete;
  remote_server& operator=(const remote_server&) = delete;
  /// Its standard input ends, and so does it; killed when it takes too long.
  ~remote_server();

  /// URL of its targets, once it serves. Throws failed_run that names the host, when it does not by
  /// the deadline.
  [[nodiscard]] std::string url(time_point deadline);

 private:
  [[nodiscard]] std::string first_line(time_point deadline);
  [[noreturn]] void give_up(const std::string& what);
  [[nodiscard]] bool has_ended_by(time_point deadline);

  host_entry host_;
  std::string command_;
  pid_t pid_ = -1;
  int status_ = 0;
  unique_fd input_;
  unique_fd output_;
  std::thread forwarder_; ///< of what targets print
};

/// Runs a program as a child and returns its exit status as shells say it. Signals that ask us to
/// end go to the child; block_signals() comes before anything that starts threads. `prints_to`:
/// null, where we print.
[[nodiscard]] int run_to_end(const std::string& program, const std::vector<std::string>& words,
                             labelled_output* prints_to);
void block_signals();

} // namespace farcall::tool
