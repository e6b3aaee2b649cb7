// SPDX-License-Identifier: Apache-2.0
#include "helper.hpp"

#include "mount_point.hpp"
#include "mounted_prefix.hpp"
#include "target_link.hpp"
#include "waiting_requests.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/files/access.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::mount {
namespace {

/// Milliseconds between two checks whether the target is ending.
constexpr int check_every_ms = 500;
/// Checks in a row at which a thread of the target is blocked before the mounts are ended.
constexpr unsigned most_blocked_looks = 10;

/// The target's request, and the process that has sent it.
struct wish {
  pid_t pid = 0;
  std::string socket;
  std::vector<files::prefix> prefixes;
  bool is_strict = false;
};

/// Returns the size of the next message, or -1.
ssize_t await_message(int socket) {
  for (;;) {
    const ssize_t got = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
    if (got >= 0 || errno != EINTR) return got;
  }
}

/// Receives the request of the target. Returns nothing if the target has ended without one. Throws
/// error.
std::optional<wish> receive_wish(int socket) {
  const ssize_t bytes = await_message(socket);
  if (bytes <= 0) return std::nullopt;
  std::string all(static_cast<std::size_t>(bytes), '\0');
  iovec part{all.data(), all.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (got != bytes || rights == nullptr || rights->cmsg_type != SCM_CREDENTIALS)
    throw error("the target does not say who it is");
  ucred sender{};
  std::memcpy(&sender, CMSG_DATA(rights), sizeof sender);
  const std::size_t comma = all.find(',');
  const std::size_t end = all.find('\0');
  if (comma == std::string::npos || end == std::string::npos || comma > end)
    throw error("the target's request to mount files is malformed");
  wish found{sender.pid, all.substr(0, comma), {}, all.substr(end + 1) == "strict"};
  found.prefixes =
      files::parse_prefixes(all.substr(comma + 1, end - comma - 1), "the host's files");
  // A prefix may be below another one, and is mounted after it.
  std::sort(found.prefixes.begin(), found.prefixes.end(),
            [](const auto& a, const auto& b) { return a.path.size() < b.path.size(); });
  return found;
}

using mounts = std::vector<std::unique_ptr<mounted_prefix>>;

/// Unmounts after a failed start, so that the target reaches what the mounts cover.
void unmount(mounts& all) noexcept {
  while (!all.empty() && !all.back()->is_mounted())
    all.pop_back();
  for (const auto& each : all)
    each->release_root();
  while (!all.empty() && ::umount2(all.back()->path().c_str(), UMOUNT_NOFOLLOW) == 0) {
    // The threads of the mount may still use the object.
    [[maybe_unused]] const mounted_prefix* const leaked = all.back().release();
    all.pop_back();
  }
}

/// Waits until the target has ended. If the target is being killed, or if its memory is locked by a
/// thread that waits for a page of a mount, aborts the mounts: such a thread may wait for a request
/// that only the target would have served, and goes on only after the abort.
void wait_for_end(target_process& target, const mounts& all) noexcept {
  pollfd end{target.end_fd(), POLLIN, 0};
  bool is_told = false;
  while (::poll(&end, 1, check_every_ms) != 1) {
    if (!target.has_ended()) {
      if (!target.is_blocked(most_blocked_looks)) continue;
      if (!std::exchange(is_told, true)) {
        // The helper has no standard error of its own.
        const unique_fd to = target.open_log();
        if (to) (void)::dup2(to.get(), STDERR_FILENO);
        log::error("the target waits for a page of the host's files with its memory locked, and "
                   "farcall needs that lock to read the page: the mounts are ended, and changes "
                   "that were not written are lost");
      }
    }
    for (const auto& each : all)
      each->abort();
  }
}

/// Replies with a text and its terminating zero byte.
void reply(int socket, const std::string& text) {
  (void)!::send(socket, text.c_str(), text.size() + 1, MSG_NOSIGNAL);
}

/// Serves one target until its end, and ends this process without destroying anything, because the
/// threads of the mounts still run. The mounts stay, without a server: programs that the target has
/// started get ENOTCONN there, instead of files of this machine that have the same paths.
[[noreturn]] void serve(unique_fd socket) {
  std::optional<target_process> target;
  std::optional<target_link> link;
  std::optional<waiting_requests> waiting;
  mounts all;
  try {
    const std::optional<wish> asked = receive_wish(socket.get());
    if (!asked) ::_exit(0);
    target.emplace(asked->socket, asked->pid);
    link.emplace(*target);
    waiting.emplace(*target);
    for (const files::prefix& each : asked->prefixes) {
      all.push_back(
          std::make_unique<mounted_prefix>(*target, *link, *waiting, each, asked->is_strict));
    }
    // Mount only after all prefixes were found at the host, because a folder that takes the place
    // of the root stays.
    for (const auto& each : all)
      each->mount(*link);
  } catch (const std::exception& e) {
    unmount(all);
    remove_covers();
    reply(socket.get(), e.what());
    ::_exit(1);
  }
  reply(socket.get(), "");
  socket.reset();
  wait_for_end(*target, all);
  ::_exit(0);
}

/// Leaves everything that the helper has from the process that started it, except one socket.
void leave_parent(int& socket) {
  (void)::setsid();
  const int kept = ::dup2(socket, STDERR_FILENO + 1);
  if (kept < 0) ::_exit(1);
  (void)::close_range(static_cast<unsigned>(kept) + 1, ~0U, 0);
  socket = kept;
  (void)::fcntl(socket, F_SETFD, FD_CLOEXEC);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing >= 0) {
    for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      (void)::dup2(nothing, each);
    ::close(nothing);
  }
  (void)!::chdir("/");
  (void)::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

} // namespace

unique_fd start_helper() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0)
    throw error("no socket for the helper: " + reason_text(errno));
  unique_fd ours(ends[0]);
  unique_fd theirs(ends[1]);
  const int yes = 1;
  if (::setsockopt(theirs.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0)
    throw error("the helper cannot know who asks: " + reason_text(errno));
  const pid_t between = ::fork();
  if (between < 0) throw error("no process for the helper: " + reason_text(errno));
  if (between == 0) {
    // The helper is a grandchild, so that the target has no child that it did not start.
    if (::fork() != 0) ::_exit(0);
    int socket = theirs.release();
    leave_parent(socket);
    serve(unique_fd(socket));
  }
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  return ours;
}

} // namespace farcall::mount
