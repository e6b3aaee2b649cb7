// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/server/client_quota.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>

#include <sys/resource.h>
#include <sys/stat.h>

namespace farcall::detail {
namespace {

/// Returns the inode numbers of a process's open sockets; empty if they cannot be read.
std::set<tcp::socket_number> sockets_of(pid_t process) {
  std::set<tcp::socket_number> numbers;
  std::error_code gone;
  std::filesystem::directory_iterator at("/proc/" + std::to_string(process) + "/fd", gone);
  for (; !gone && at != std::filesystem::directory_iterator(); at.increment(gone)) {
    struct stat status{};
    if (::stat(at->path().c_str(), &status) == 0 && S_ISSOCK(status.st_mode))
      numbers.insert(status.st_ino);
  }
  return numbers;
}

cpu_set_t set_of(const std::vector<unsigned>& cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : cpus)
    CPU_SET(cpu, &set);
  return set;
}

/// Returns the processors in `cpus` on which this process cannot run. Returns an empty list if the
/// system does not say which these are.
std::vector<unsigned> unusable_of(const std::vector<unsigned>& cpus) {
  cpu_set_t before;
  if (::sched_getaffinity(0, sizeof before, &before) != 0) return {};
  // Set the affinity to `cpus` and read it back, because the kernel removes processors from the set
  // that do not exist or are not allowed.
  cpu_set_t set = set_of(cpus);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    return errno == EINVAL ? cpus : std::vector<unsigned>();
  }
  const bool is_known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  (void)::sched_setaffinity(0, sizeof before, &before);
  std::vector<unsigned> unusable;
  std::ranges::copy_if(cpus, std::back_inserter(unusable),
                       [&](unsigned cpu) { return is_known && !CPU_ISSET(cpu, &set); });
  return unusable;
}

/// Returns a list of processors as text: "0-2,8" for 0, 1, 2, 8.
std::string text_of(const std::vector<unsigned>& cpus) {
  std::string text;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const unsigned first = *at++;
    unsigned last = first;
    for (; at != cpus.end() && *at == last + 1; ++at)
      last = *at;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last != first) text += "-" + std::to_string(last);
  }
  return text;
}

} // namespace

void require_space(const std::string& client, const client_limits& limits, std::uint32_t targets) {
  if (!limits.targets || targets < *limits.targets) return;
  throw start_failed("client " + client + " has " + std::to_string(targets) +
                         " targets on this server and may have no more (targets= of its line in "
                         "the server's file of clients)",
                     no_node);
}

cpu_restriction::cpu_restriction(const std::string& client, const std::vector<unsigned>& cpus) {
  if (cpus.empty()) return;
  const cpu_set_t wanted = set_of(cpus);
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
  // Restore the affinity that the thread had before.
  if (is_restricted_) (void)::sched_setaffinity(0, sizeof before_, &before_);
}

void warn_of_unusable_cpus(const std::string& file, const client_table& clients) {
  for (const auto& [name, limits] : clients) {
    if (limits.cpus.empty()) continue;
    const std::vector<unsigned> unusable = unusable_of(limits.cpus);
    if (unusable.empty()) continue;
    log::warning("client file " + file + ": cpus= of client " + name +
                 " names processors that cannot be used here: " + text_of(unusable) +
                 (unusable.size() == limits.cpus.size() ? "; its targets cannot start"
                                                        : "; its targets run on the others"));
  }
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

void taken_connections::add(tcp::socket_number socket) {
  constexpr std::size_t most = 65'536;
  if (all_.size() < most) all_.insert(socket);
}

void taken_connections::forget_closed(pid_t process) {
  const std::set<tcp::socket_number> open = sockets_of(process);
  std::erase_if(all_, [&](tcp::socket_number s) { return !open.contains(s); });
}

} // namespace farcall::detail
