// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/job/pmi_manager.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/// Finds the process manager by the environment variables that launchers set.
namespace farcall {
namespace {

std::string required(const char* name, const char* because) {
  auto value = environment(name);
  if (!value) {
    throw setting_error(std::string(because) + " is set, and " + name +
                        " is not: a launcher sets both; unset " + because);
  }
  return std::move(*value);
}

std::uint32_t number_of(const char* name, const char* because, std::uint64_t low,
                        std::uint64_t high) {
  return static_cast<std::uint32_t>(parse_number(required(name, because), name, low, high));
}

/// Duplicates the socket whose descriptor the variable PMI_FD contains.
unique_fd inherited_socket(const std::string& text) {
  const auto named = static_cast<int>(parse_number(text, "PMI_FD", 0, INT_MAX));
  unique_fd socket(::fcntl(named, F_DUPFD_CLOEXEC, 0));
  if (!socket) {
    throw_system_error("PMI_FD=" + text +
                           " names a descriptor that is not there; what has started this program "
                           "may have closed it: unset PMI_FD if that is no launcher",
                       errno);
  }
  // Do not let programs that this process starts inherit the socket. An MPI library that needs the
  // socket runs in this process itself, even if it starts later.
  ::fcntl(named, F_SETFD, FD_CLOEXEC);
  return socket;
}

/// Connects to the address. On failure, returns an empty descriptor and stores the reason in `why`.
unique_fd connected(const addrinfo& to, time_point deadline, std::string& why) {
  unique_fd socket(
      ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol));
  int reason = !socket ? errno : 0;
  if (reason == 0 && ::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0) reason = errno;
  if (reason == EINPROGRESS) {
    pollfd writable{socket.get(), POLLOUT, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
    const int ready = ::poll(&writable, 1,
                             deadline == no_deadline
                                 ? -1
                                 : static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX)));
    socklen_t bytes = sizeof reason;
    if (ready != 1) {
      reason = ETIMEDOUT;
    } else if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &reason, &bytes) != 0) {
      reason = errno;
    }
  }
  if (reason == 0) {
    const int yes = 1;
    (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return socket;
  }
  why = reason_text(reason);
  return {};
}

unique_fd connect_to(const std::string& port, time_point deadline) {
  const std::size_t colon = port.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw setting_error("PMI_PORT=" + port + " should be host:port");
  std::string host = port.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string number =
      std::to_string(parse_number(port.substr(colon + 1), "the port in PMI_PORT", 1, 65535));
  if (const int failed = ::getaddrinfo(host.c_str(), number.c_str(), &hints, &found); failed != 0) {
    throw error("PMI_PORT=" + port +
                ": the process manager's host is not known: " + ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  std::string why = "it has no address";
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (unique_fd socket = connected(*one, deadline, why)) return socket;
  }
  throw error("PMI_PORT=" + port + ": the process manager cannot be reached: " + why);
}

} // namespace

std::unique_ptr<pmi_manager> pmi_manager::find(time_point deadline) {
  if (const auto descriptor = environment("PMI_FD")) {
    const std::uint32_t size = number_of("PMI_SIZE", "PMI_FD", 1, no_node);
    const node_id rank = number_of("PMI_RANK", "PMI_FD", 0, size - 1);
    // If MPI has ended in this process, throw. MPI_Finalize closes the descriptor, so that its
    // number may belong to another file by now.
    require_before_end(state_of_mpi());
    return std::make_unique<pmi_manager>(inherited_socket(*descriptor), rank, size, deadline);
  }
  if (const auto port = environment("PMI_PORT")) {
    const std::uint32_t id = number_of("PMI_ID", "PMI_PORT", 0, no_node);
    return std::unique_ptr<pmi_manager>(
        new pmi_manager(connect_to(*port, deadline), id, deadline, state_of_mpi));
  }
  return nullptr;
}

} // namespace farcall
