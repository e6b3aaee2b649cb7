// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/descriptor_limit.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <sys/resource.h>

namespace farcall {
namespace {

/// Number of file descriptors that the host needs for a node: one each for its control socket, its
/// process and its receive segment, and two for its heaps.
constexpr std::size_t descriptors_of_node = 5;
/// Number of pipes that the host needs for a node's output.
constexpr std::size_t pipes_of_node = 2;
/// Number of file descriptors that remain for the job itself, and for files that the program opens
/// later.
constexpr std::size_t spare = 128;

std::size_t open_descriptors() {
  std::error_code unknown;
  std::size_t open = 0;
  for (std::filesystem::directory_iterator all("/proc/self/fd", unknown), end;
       !unknown && all != end; all.increment(unknown))
    ++open;
  return open;
}

} // namespace

void require_descriptors(std::size_t nodes, bool has_pipes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_system_error("asking for limits", errno);
  const std::size_t of_node = descriptors_of_node + (has_pipes ? pipes_of_node : 0);
  const std::size_t needed = open_descriptors() + of_node * nodes;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed + spare) return;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) {
    throw start_failed("a job with " + std::to_string(nodes) + " more nodes needs about " +
                       std::to_string(needed) + " open descriptors, and this process may have " +
                       std::to_string(limit.rlim_max) +
                       "; raise the hard limit ('ulimit -Hn', LimitNOFILE= of a systemd unit, "
                       "/etc/security/limits.conf), or have fewer targets");
  }
  // Raise the limit only to the needed number, because some programs loop over all descriptor
  // numbers below the limit.
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY
                       ? needed + spare
                       : std::min<rlim_t>(needed + spare, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw_system_error("raising the limit of open descriptors to " + std::to_string(limit.rlim_cur),
                       errno);
  }
}

} // namespace farcall
