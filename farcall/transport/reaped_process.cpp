// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/reaped_process.hpp>

#include <csignal>
#include <cstdint>

#include <sys/ioctl.h>
#include <sys/wait.h>

namespace farcall {
namespace {

/// Has the layout of Linux's struct of the same name, because kernel headers before 6.13 lack that
/// struct.
struct pidfd_info {
  std::uint64_t mask = 0;
  std::uint64_t cgroup = 0;
  std::uint32_t ids[11] = {};
  std::int32_t status = 0; ///< as from waitpid()
};
static_assert(sizeof(pidfd_info) == 64);

constexpr std::uint64_t asks_for_end = std::uint64_t{1} << 3; // PIDFD_INFO_EXIT
constexpr unsigned long get_info = _IOWR(0xff, 11, pidfd_info);

} // namespace

std::optional<process_end> end_of_reaped(int pidfd) noexcept {
  pidfd_info info;
  info.mask = asks_for_end;
  if (pidfd < 0 || ::ioctl(pidfd, get_info, &info) != 0) return std::nullopt;
  if ((info.mask & asks_for_end) == 0) return std::nullopt;
  if (WIFEXITED(info.status)) return process_end{false, WEXITSTATUS(info.status)};
  return process_end{true, WTERMSIG(info.status)};
}

bool drops_exit_statuses() noexcept {
  struct sigaction action{};
  if (::sigaction(SIGCHLD, nullptr, &action) != 0) return false;
  return action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0;
}

} // namespace farcall
