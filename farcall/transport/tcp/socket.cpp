// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/connect_attempts.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace farcall::tcp {
namespace {

constexpr int waiting_connections = 128;

int set_number(int fd, int level, int option, int value) noexcept {
  return ::setsockopt(fd, level, option, &value, sizeof value);
}

unique_fd make_socket(int family) noexcept {
  const int protocol = family == AF_UNIX ? 0 : IPPROTO_TCP;
  return unique_fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
}

std::string descriptor_hint(int error_number) {
  return error_number == EMFILE || error_number == ENFILE
             ? " (each connection takes a descriptor; raise the limit with 'ulimit -n')"
             : "";
}

// ---- listening ----------------------------------------------------------------------------------

std::string listen_hint(int reason) {
  switch (reason) {
  case EADDRINUSE:
    return "; another program listens there: end it, or choose another port (0 takes a free one)";
  case EACCES:
    return "; ports below 1024 need rights: choose a larger one";
  case EADDRNOTAVAIL:
    return "; that is no address of this machine: 'ip address' lists them, and 0.0.0.0 or [::] "
           "stands for all";
  default:
    return descriptor_hint(reason);
  }
}

/// Returns a listener, or an empty descriptor and the errno value in `reason`.
unique_fd try_listen(const socket_address& where, int& reason) {
  unique_fd made = make_socket(where.family());
  const bool is_ipv6 = where.family() == AF_INET6;
  if (!made || set_number(made.get(), SOL_SOCKET, SO_REUSEADDR, 1) != 0 ||
      (is_ipv6 && set_number(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0) ||
      ::bind(made.get(), where.data(), where.size()) != 0 ||
      ::listen(made.get(), waiting_connections) != 0) {
    reason = errno;
    made.reset();
  }
  return made;
}

bool is_not_of_this_machine(int reason) {
  return reason == EADDRNOTAVAIL || reason == EAFNOSUPPORT;
}

[[noreturn]] void cannot_listen(const socket_address& at, const address& where, int reason) {
  const std::string name = at.text() == where.text() ? "" : " (" + where.text() + ")";
  throw error("cannot listen on " + at.text() + name + ": " + reason_text(reason) +
              listen_hint(reason));
}

// ---- connecting ---------------------------------------------------------------------------------

std::string connect_hint(const socket_address& to, int reason) {
  const bool is_path = to.family() == AF_UNIX;
  switch (reason) {
  case ECONNREFUSED:
    return "; nothing listens there: is 'farcall serve' running?";
  case ENOENT:
    return is_path ? "; nothing listens there: is 'farcall serve' running?" : "";
  case EACCES:
    return is_path ? "; that socket is for its owner's processes only" : "";
  case EAGAIN:
    return is_path
               ? "; more connections wait there than the system lets wait: is its server stopped?"
               : "";
  case ENETUNREACH:
  case EHOSTUNREACH:
    return "; there is no way to that network: check the address and the firewalls";
  case ETIMEDOUT:
    return "; the machine is down, or a firewall drops what we send";
  default:
    return descriptor_hint(reason);
  }
}

/// Returns a socket that is connecting, or an empty descriptor and the errno value in `reason`.
unique_fd try_start(const socket_address& where, int& reason) noexcept {
  unique_fd made = make_socket(where.family());
  if (made) (void)set_number(made.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  // EINTR is no failure, because an interrupted connect() continues asynchronously.
  if (!made || (::connect(made.get(), where.data(), where.size()) != 0 && errno != EINPROGRESS &&
                errno != EINTR)) {
    reason = errno;
    made.reset();
  }
  return made;
}

int poll_milliseconds(time_point deadline) noexcept {
  if (deadline == no_deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 1'000'000'000));
}

socket_address end_of(int fd, int (*ask)(int, sockaddr*, socklen_t*)) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (ask(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return {reinterpret_cast<const sockaddr*>(&storage), size};
}

} // namespace

namespace {

/// Returns the addresses to listen on. For "::" these are addresses of both families, rather than
/// one for both, so that the addresses of IPv4 peers are shown as IPv4 addresses.
std::vector<socket_address> addresses_of(const address& where) {
  std::vector<socket_address> found = resolve(where);
  if (where.host == "::") {
    for (const socket_address& four : resolve({"0.0.0.0", where.port}))
      found.push_back(four);
  }
  return found;
}

/// True if one of the listeners `by` already accepts connections to the address `at`.
bool is_covered(const socket_address& at, const std::vector<unique_fd>& by) {
  const std::string everywhere = at.family() == AF_INET6 ? "::" : "0.0.0.0";
  return at.port() != 0 && std::ranges::any_of(by, [&](const unique_fd& listener) {
           if (is_unix(listener.get())) return false;
           const address there = local_address(listener.get());
           return there == at.numeric() || there == address{everywhere, at.port()};
         });
}

std::vector<unique_fd> listen_beside(const std::vector<unique_fd>& others, const address& where) {
  if (where.is_path()) {
    std::vector<unique_fd> one;
    one.push_back(listen_at(where.host));
    return one;
  }
  std::vector<socket_address> found = addresses_of(where);
  std::erase_if(found, [&](const socket_address& at) { return is_covered(at, others); });
  if (found.empty()) return {};
  // The system may choose a port that is free on the first address, but in use on the next one. In
  // this case the system chooses another port.
  constexpr int max_attempts = 16;
  for (int attempt = 1;; ++attempt) {
    std::vector<unique_fd> listeners;
    std::uint16_t port = where.port;
    bool again = false;
    int absent = 0;
    for (socket_address& at : found) {
      at.set_port(port);
      int reason = 0;
      unique_fd made = try_listen(at, reason);
      if (made) {
        port = local_address(made.get()).port;
        listeners.push_back(std::move(made));
      } else if (is_not_of_this_machine(reason)) {
        absent = reason;
      } else if (reason == EADDRINUSE && where.port == 0 && attempt < max_attempts) {
        again = true;
        break;
      } else {
        cannot_listen(at, where, reason);
      }
    }
    if (again) continue;
    if (listeners.empty()) cannot_listen(found.front(), where, absent);
    return listeners;
  }
}

} // namespace

std::vector<unique_fd> listen_on(const address& where) { return listen_beside({}, where); }

std::vector<unique_fd> listen_on_all(const std::vector<address>& places) {
  std::vector<unique_fd> all;
  for (const address& where : places) {
    std::vector<unique_fd> more = listen_beside(all, where);
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

address local_address(int fd) {
  const socket_address at = end_of(fd, ::getsockname);
  if (at.size() == 0) throw_system_error("asking for the address of a socket", errno);
  return at.numeric();
}

socket_address peer_address(int fd) noexcept { return end_of(fd, ::getpeername); }

std::string peer_text(int fd) {
  if (const auto user = peer_user(fd)) return "a process of user " + std::to_string(*user);
  const socket_address at = peer_address(fd);
  return at.port() == 0 ? "an unknown address" : at.text();
}

socket_number number_of(int socket) {
  struct stat status{};
  if (::fstat(socket, &status) != 0) throw_system_error("looking at a connection", errno);
  return status.st_ino;
}

bool takes_ipv4_too(int listener) noexcept {
  int only_ipv6 = 1;
  socklen_t size = sizeof only_ipv6;
  return ::getsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, &size) == 0 &&
         only_ipv6 == 0;
}

std::optional<unique_fd> accept_from(int listener) {
  for (;;) {
    unique_fd made(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (made) {
      (void)set_number(made.get(), IPPROTO_TCP, TCP_NODELAY, 1);
      return made;
    }
    const int reason = errno;
    switch (reason) {
    case EAGAIN:
      return std::nullopt;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EBADF:
    case EINVAL:
    case ENOTSOCK:
      throw_system_error("accepting a connection" + descriptor_hint(reason), reason);
    default:
      // Try again: the connection broke while it waited to be accepted, or a signal interrupted the
      // call.
      break;
    }
  }
}

std::string connect_failure_text(const socket_address& at, int reason) {
  return at.text() + ": " + reason_text(reason) + connect_hint(at, reason);
}

bool is_connected_to_itself(int fd) noexcept {
  return end_of(fd, ::getsockname) == end_of(fd, ::getpeername);
}

unique_fd start_connect(const socket_address& where) {
  int reason = 0;
  unique_fd made = try_start(where, reason);
  if (!made && reason == EAGAIN && where.family() == AF_UNIX) {
    throw listener_busy(connect_failure_text(where, reason));
  }
  if (!made) throw error(connect_failure_text(where, reason));
  return made;
}

unique_fd connect_to_first(std::vector<socket_address> where, const std::string& name,
                           time_point deadline) {
  connect_attempts attempts(std::move(where));
  for (;;) {
    const time_point now = clock::now();
    (void)attempts.start_due(now);
    const std::string what = "cannot connect to " + name + " (";
    if (attempts.have_failed()) throw error(what + attempts.failures() + ")");
    if (now >= deadline) throw timeout(what + attempts.failures() + ")");
    std::vector<pollfd> waiting;
    for (const int socket : attempts.sockets())
      waiting.push_back({socket, POLLOUT, 0});
    const int left = poll_milliseconds(std::min(deadline, attempts.next_start()));
    if (::poll(waiting.data(), waiting.size(), left) <= 0) continue;
    for (const pollfd& w : waiting) {
      const int reason = connect_attempts::outcome_of(w.fd);
      if (reason == 0) return attempts.take(w.fd);
      if (reason != EINPROGRESS) attempts.fail(w.fd, reason);
    }
  }
}

unique_fd connect_to(const address& where, time_point deadline) {
  return connect_to_first(resolve(where), where.text(), deadline);
}

void set_options(int fd, std::chrono::milliseconds heartbeat_timeout) {
  // Unix sockets need no options, because they report the end of the peer's process at once.
  if (is_unix(fd)) return;
  bool good = set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0;
  if (good && heartbeat_timeout.count() > 0) {
    // Let the kernel send so many probes that the path monitor decides before the kernel gives up.
    // The kernel measures the silence from the last byte that it received. The path monitor
    // measures it from the first probe that got no reply.
    constexpr std::int64_t longest = 32'767;
    const auto whole = std::chrono::floor<std::chrono::seconds>(heartbeat_timeout).count();
    const int seconds = static_cast<int>(std::clamp<std::int64_t>(whole, 2, longest));
    const int idle = seconds / 2;
    const int interval = std::max(1, seconds / 4);
    const int probes = 3 * seconds / interval;
    good = set_number(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle) == 0 &&
           set_number(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval) == 0 &&
           set_number(fd, IPPROTO_TCP, TCP_KEEPCNT, probes) == 0 &&
           set_number(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0;
  }
  if (!good) throw_system_error("setting the options of a TCP socket", errno);
}

std::chrono::milliseconds repetition_gap(std::chrono::milliseconds timeout) noexcept {
  // Range of values that the system accepts for this option.
  constexpr std::chrono::milliseconds least{1'000};
  constexpr std::chrono::milliseconds most{120'000};
  return std::clamp(timeout / 4, least, most);
}

void limit_repetition_gap(int fd, std::chrono::milliseconds timeout) noexcept {
  constexpr int tcp_rto_max_ms = 44; // option number; headers before Linux 6.15 do not name it
  (void)set_number(fd, IPPROTO_TCP, tcp_rto_max_ms,
                   static_cast<int>(repetition_gap(timeout).count()));
}

void abort_connection(int fd) noexcept {
  // Connect to AF_UNSPEC, which resets a TCP connection at once, even if a forked child that has
  // not yet called exec also has the descriptor.
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  if (!is_unix(fd) && ::connect(fd, &nowhere, sizeof nowhere) == 0) return;
  ::shutdown(fd, SHUT_RDWR);
}

void delay_acknowledgements(int fd) noexcept {
  // Ignore a failure, after which acknowledgements only cost more.
  (void)set_number(fd, IPPROTO_TCP, TCP_QUICKACK, 0);
}

} // namespace farcall::tcp
