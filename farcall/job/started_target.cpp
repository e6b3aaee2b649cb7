// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/job/started_target.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/start_mark.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Sets the name that process lists show for this process. Otherwise they would show "exe" for a
/// program that was started through /proc.
void name_process() {
  const std::string name = std::filesystem::path(own_program()).filename().string();
  ::prctl(PR_SET_NAME, name.c_str());
}

/// Process group that contains this target and the processes that it has started; 0 if the target
/// is in the host's process group.
constinit std::atomic<pid_t> own_group{0};

/// If the host is in another process group, stores this process's group in `own_group`.
void find_own_group(int socket_to_host) noexcept {
  ucred host{};
  socklen_t bytes = sizeof host;
  if (::getsockopt(socket_to_host, SOL_SOCKET, SO_PEERCRED, &host, &bytes) != 0 || host.pid <= 0)
    return;
  const pid_t group = ::getpgid(host.pid);
  if (group > 0 && group != ::getpgrp()) own_group.store(::getpgrp());
}

/// Ignores the signal SIGTTOU, so that this process can print to its terminal from the background,
/// even after `stty tostop`.
void write_from_background() noexcept {
  struct sigaction now{};
  if (::sigaction(SIGTTOU, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    (void)std::signal(SIGTTOU, SIG_IGN);
}

/// Throws error, because this process has lost a mark by which the host identifies its targets, and
/// so cannot join. Tells the host the reason if possible.
[[noreturn]] void refuse_to_join(lost_mark lost) {
  const std::string why = text_of(lost);
  if (const int socket = find_target_socket(); socket >= 0) {
    control_socket to_host{unique_fd(socket)};
    (void)messages::try_send(to_host, messages::refused{why});
  } else if (!tell_lost_mark(lost)) {
    throw setting_error("this target cannot join: " + why); // the host has ended in the meantime
  }
  throw error(why);
}

/// Takes the socket by which the host has connected this process to itself. Throws setting_error if
/// the failure cannot be reported to a host, and otherwise error.
unique_fd inherited_socket() {
  const auto given = environment(bootstrap_variable);
  if (!given) refuse_to_join(lost_mark::variable);
  // Remove the variable, because programs that this process starts must not consider themselves
  // targets.
  ::unsetenv(bootstrap_variable);
  unique_fd socket(static_cast<int>(parse_number(*given, bootstrap_variable, 3, 1'000'000)));
  struct stat status{};
  if (::fstat(socket.get(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    // This descriptor is not the host's socket but belongs to another file of the program, so do
    // not close it.
    (void)socket.release();
    if (tell_lost_mark(lost_mark::none)) refuse_to_join(lost_mark::socket);
    throw setting_error(std::string(bootstrap_variable) + " is set to " + *given +
                        ", which is no socket of a farcall host: if the program, or what starts "
                        "it, closes descriptors before its farcall::job, leave them open; if the "
                        "variable was set by hand, leave it out");
  }
  if (!claim_target_socket(socket.get())) {
    const std::string why =
        "another process has taken its place in the job: this program forks before its "
        "farcall::job, so that several processes of one target make one; call "
        "farcall::serve_if_target() first in main()";
    control_socket to_host{std::move(socket)};
    (void)messages::try_send(to_host, messages::refused{why});
    // Throw setting_error, so that the error is also written to the log, because a host whose job
    // has started does not report it.
    throw setting_error("this process cannot be a target: " + why);
  }
  drop_limit_mark();
  return socket;
}

} // namespace

bool is_started_target() noexcept {
  const limit_mark mark = find_limit_mark();
  if (mark == limit_mark::other_program) return false;
  if (mark == limit_mark::this_program || std::getenv(bootstrap_variable) != nullptr) return true;
  // Store for which process the result holds, so that a forked child checks again.
  static std::atomic<pid_t> known_as_none{0};
  const pid_t self = ::getpid();
  if (known_as_none.load(std::memory_order_relaxed) == self) return false;
  if (find_target_socket() >= 0 || tell_lost_mark(lost_mark::none)) return true;
  known_as_none.store(self, std::memory_order_relaxed);
  return false;
}

unique_fd take_target_socket() {
  unique_fd socket;
  try {
    socket = inherited_socket();
  } catch (const setting_error& e) {
    log::error(e.what()); // Write the error to the log, because no host can report it.
    throw;
  }
  name_process();
  find_own_group(socket.get());
  write_from_background();
  print_lines_into_pipes();
  return socket;
}

void hang_up_own_group() noexcept {
  if (own_group.load() != ::getpgrp()) return;
  (void)std::signal(SIGHUP, SIG_IGN);
  (void)::kill(0, SIGHUP);
}

} // namespace farcall
