#include <farcall/base/error.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/client_quota.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include <sys/resource.h>
#include <sys/stat.h>

namespace farcall::tcp {
namespace {

/// The numbers of the sockets that a process has open. None where it cannot be seen.
std::set<socket_number> sockets_of(pid_t process) {
  std::set<socket_number> numbers;
  std::error_code gone;
  std::filesystem::directory_iterator at("/proc/" + std::to_string(process) + "/fd", gone);
  for (; !gone && at != std::filesystem::directory_iterator(); at.increment(gone)) {
    struct stat status{};
    if (::stat(at->path().c_str(), &status) == 0 && S_ISSOCK(status.st_mode))
      numbers.insert(status.st_ino);
  }
  return numbers;
}

} // namespace

void require_room(const std::string& client, const client_limits& limits, std::uint32_t targets) {
  if (!limits.targets || targets < *limits.targets) return;
  throw start_failed("client " + client + " has " + std::to_string(targets) +
                         " targets on this server and may have no more (targets= of its line in "
                         "the server's file of clients)",
                     no_node);
}

cpu_restriction::cpu_restriction(const std::string& client, const std::vector<unsigned>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const unsigned cpu : cpus)
    CPU_SET(cpu, &wanted);
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0 ||
      ::sched_setaffinity(0, sizeof wanted, &wanted) != 0) {
    throw start_failed("the server cannot run targets of client " + client +
                           " on its processors (cpus= of its line in the server's file of "
                           "clients): " +
                           reason_text(errno),
                       no_node);
  }
  is_restricted_ = true;
}

cpu_restriction::~cpu_restriction() {
  // What was allowed before is so now.
  if (is_restricted_) (void)::sched_setaffinity(0, sizeof before_, &before_);
}

void limit_memory(pid_t process, std::uint64_t bytes) {
  rlimit limit{};
  if (::prlimit(process, RLIMIT_DATA, nullptr, &limit) == 0) {
    limit.rlim_max = std::min<rlim_t>(limit.rlim_max, bytes);
    limit.rlim_cur = limit.rlim_max;
    if (::prlimit(process, RLIMIT_DATA, &limit, nullptr) == 0) return;
  }
  throw start_failed("the memory of a target cannot be limited: " + reason_text(errno), no_node);
}

void taken_connections::add(socket_number socket) {
  constexpr std::size_t most = 65'536;
  if (all_.size() < most) all_.insert(socket);
}

void taken_connections::forget_closed(pid_t process) {
  const std::set<socket_number> open = sockets_of(process);
  std::erase_if(all_, [&](socket_number s) { return !open.contains(s); });
}

} // namespace farcall::tcp
