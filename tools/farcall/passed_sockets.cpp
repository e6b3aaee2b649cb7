// SPDX-License-Identifier: Apache-2.0
#include "passed_sockets.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

/// First passed descriptor.
constexpr int first_passed = 3;
constexpr std::uint64_t max_passed = 1024;

/// True if the descriptor is a Unix socket with a path to which clients can connect.
bool has_path(int fd) {
  try {
    const std::string path = tcp::local_address(fd).text();
    return tcp::parse_server_address(path, "a socket").is_path();
  } catch (const error&) {
    return false;
  }
}

int socket_number(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/// Returns the reason why a server cannot listen on a passed socket. Returns nothing if it can.
std::optional<std::string> flaw_of_passed(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    return errno == ENOTSOCK ? "is no socket"
                             : fmt::format("cannot be used: {}", reason_text(errno));
  }
  const int family = socket_number(fd, SO_DOMAIN);
  if (type != SOCK_STREAM || (family != AF_INET && family != AF_INET6 && !has_path(fd))) {
    return "is neither a TCP socket nor a Unix socket whose path has no blanks, commas, question "
           "marks or quotes; a socket unit names one as ListenStream=7070 or "
           "ListenStream=/run/farcall.socket";
  }
  if (socket_number(fd, SO_ACCEPTCONN) != 1)
    return "does not listen; a socket unit needs Accept=no, and the server takes connections in";
  return std::nullopt;
}

std::uint64_t number_in(const char* variable, const std::string& value, std::uint64_t most) {
  try {
    return parse_number(value, variable, 0, most);
  } catch (const setting_error& e) {
    throw failed_run(fmt::format("{}; leave it to the service manager, or unset it", e.what()));
  }
}

} // namespace

std::vector<unique_fd> take_passed_sockets() {
  const std::optional<std::string> pid = farcall::environment("LISTEN_PID");
  const std::optional<std::string> count = farcall::environment("LISTEN_FDS");
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"})
    unsetenv(name);
  if (!pid || !count) return {};
  if (number_in("LISTEN_PID", *pid, INT_MAX) != static_cast<std::uint64_t>(getpid())) return {};
  const int n = static_cast<int>(number_in("LISTEN_FDS", *count, max_passed));
  std::vector<unique_fd> passed;
  for (int fd = first_passed; fd < first_passed + n; ++fd) {
    if (const auto flaw = flaw_of_passed(fd))
      throw failed_run(
          fmt::format("descriptor {} that was passed (LISTEN_FDS={}) {}", fd, n, *flaw));
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    passed.emplace_back(fd);
  }
  return passed;
}

} // namespace farcall::tool
