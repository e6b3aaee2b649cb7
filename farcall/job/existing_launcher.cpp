// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/existing_launcher.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall {
namespace {

pid_t peer_process(int socket) {
  ucred who{};
  socklen_t bytes = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 ? who.pid : 0;
}

/// A target that existed before the job, and was not started by this host. When the socket to the
/// process is closed, the process counts as ended. The process id in `pid_` may be wrong: the
/// kernel reports the process that has made the socket pair, which may have passed its end to
/// another process.
class existing_process final : public target_process {
 public:
  explicit existing_process(unique_fd socket) : pid_(peer_process(socket.get())) {
    set(control_socket(std::move(socket)), "a process that existed");
  }

  bool is_near() const noexcept override { return true; }

  std::string end_text(const std::string& exit_reason) override {
    return " (" + name() + ") closed its control socket" +
           (exit_reason.empty() ? "" : ": " + exit_reason);
  }

  std::string silence_text(const char* what) override {
    return std::string(" did not ") + what +
           " in time; it joins by farcall::serve_as_target(), fc_serve_socket() or "
           "fc_serve_open() with the other end of its socket (job_options::start_timeout)";
  }

  /// Closes the socket to the process, which then ends by itself, because a target ends when it has
  /// lost its host.
  void kill() noexcept override { socket().close(); }

 private:
  [[nodiscard]] std::string name() const {
    return pid_ == 0 || pid_ == ::getpid() ? "a process that existed"
                                           : "process " + std::to_string(pid_);
  }

  pid_t pid_;
};

} // namespace

existing_launcher::existing_launcher(std::vector<unique_fd> sockets)
    : sockets_(std::move(sockets)) {
  for (unique_fd& socket : sockets_) {
    require_control_socket(socket.get());
    socket.close_on_fork();
    ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  }
  std::reverse(sockets_.begin(), sockets_.end());
}

std::unique_ptr<target_process> existing_launcher::start(node_id node, const target_url& /*url*/,
                                                         time_point /*deadline*/) {
  if (sockets_.empty()) throw start_failed(node_text(node) + " has no process", node);
  unique_fd socket = std::move(sockets_.back());
  sockets_.pop_back();
  return std::make_unique<existing_process>(std::move(socket));
}

} // namespace farcall
