// SPDX-License-Identifier: Apache-2.0
#include "service_manager.hpp"

#include "server_pages.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/text.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::chrono::seconds report_interval{1};

/// Returns the name of the service manager's socket, as the kernel expects it in sockaddr_un. If
/// the name in NOTIFY_SOCKET begins with "@" (an abstract socket), a zero byte replaces the "@".
std::string socket_from_environment() {
  const std::optional<std::string> value = farcall::environment("NOTIFY_SOCKET");
  unsetenv("NOTIFY_SOCKET");
  if (!value) return {};
  std::string name = *value;
  const bool is_abstract = name.starts_with('@');
  if ((!is_abstract && !name.starts_with('/')) || name.size() >= sizeof(sockaddr_un::sun_path)) {
    log::warning(fmt::format("NOTIFY_SOCKET is {}, which is neither a path nor @NAME, or too long; "
                             "the service manager gets no reports",
                             quoted_text(name)));
    return {};
  }
  if (is_abstract) name.front() = '\0';
  return name;
}

std::optional<std::chrono::microseconds> watchdog_from_environment() {
  const std::optional<std::string> pid = farcall::environment("WATCHDOG_PID");
  const std::optional<std::string> time = farcall::environment("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
  unsetenv("WATCHDOG_USEC");
  if (!time) return std::nullopt;
  try {
    if (pid &&
        parse_number(*pid, "WATCHDOG_PID", 1, INT_MAX) != static_cast<std::uint64_t>(getpid()))
      return std::nullopt;
    constexpr std::uint64_t day = 86'400'000'000;
    return std::chrono::microseconds(parse_number(*time, "WATCHDOG_USEC", 1, day));
  } catch (const setting_error& e) {
    log::warning(fmt::format("{}; no watchdog reports are sent", e.what()));
    return std::nullopt;
  }
}

} // namespace

service_manager::service_manager()
    : socket_(socket_from_environment()), watchdog_(watchdog_from_environment()) {}

void service_manager::tell(std::string_view state) {
  if (socket_.empty()) return;
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path, socket_.data(), socket_.size());
  // In the kernel's length of a socket name, the zero byte after a path counts, but nothing follows
  // an abstract name.
  const std::size_t size =
      offsetof(sockaddr_un, sun_path) + socket_.size() + (socket_.front() == '\0' ? 0 : 1);
  const unique_fd from(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool is_told =
      from && sendto(from.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                     reinterpret_cast<const sockaddr*>(&where), static_cast<socklen_t>(size)) >= 0;
  const int reason = errno;
  const std::lock_guard guard(mutex_);
  if (is_told || std::exchange(is_warned_, true)) return;
  log::warning(fmt::format("cannot report to the service manager at NOTIFY_SOCKET: {}",
                           reason_text(reason)));
}

service_reports::service_reports(service_manager& manager, status_of_server ask)
    : manager_(&manager), ask_(std::move(ask)) {
  if (!manager.wants_to_receive()) return;
  std::chrono::microseconds interval = report_interval;
  // Send two heartbeats in each period of the watchdog, because one of them may be late.
  if (manager.watchdog()) interval = std::min(interval, *manager.watchdog() / 2);
  thread_ = library_thread("farcall-tool", [this, interval] { run(interval); });
}

service_reports::~service_reports() {
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void service_reports::report(std::chrono::microseconds interval) {
  // Only a server that replies is alive. Without a reply, no heartbeat (WATCHDOG=1) is sent.
  const auto status = ask_(std::chrono::ceil<std::chrono::milliseconds>(interval));
  if (status && manager_->watchdog()) manager_->tell("WATCHDOG=1");
  const std::string now = status ? server_summary(*status) : "the server does not reply";
  if (now != told_) manager_->tell("STATUS=" + now);
  told_ = now;
}

void service_reports::run(std::chrono::microseconds interval) noexcept {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    lock.unlock();
    try {
      report(interval);
    } catch (const std::exception& e) {
      log::error(e.what());
    }
    lock.lock();
    changed_.wait_for(lock, interval, [&] { return ends_; });
  }
}

} // namespace farcall::tool
