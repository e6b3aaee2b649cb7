// SPDX-License-Identifier: Apache-2.0
#include "tests/network/separate_server.hpp"

#include "tests/network/support.hpp"

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test {
namespace {

constexpr const char* user_variable = "FARCALL_TEST_USER";
constexpr const char* network_variable = "FARCALL_TEST_NETWORK";
constexpr const char* key_variable = "FARCALL_TEST_KEY";

/// Enters new namespaces; call before this process has a second thread.
bool enter_namespaces(const std::string& user, bool own_network) {
  const std::string before = std::to_string(::geteuid());
  if (::unshare(CLONE_NEWUSER | (own_network ? CLONE_NEWNET : 0)) != 0) return false;
  std::ofstream map("/proc/self/uid_map");
  map << user << ' ' << before << " 1" << std::flush;
  return map.good();
}

bool raise_loopback() {
  const unique_fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

/// Forwards bytes until either end closes, and passes the end on.
void carry(int from, int to) {
  char piece[16384];
  for (;;) {
    const ssize_t got = ::read(from, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    for (ssize_t at = 0; at < got;) {
      const ssize_t put = ::send(to, piece + at, static_cast<std::size_t>(got - at), MSG_NOSIGNAL);
      if (put <= 0) break;
      at += put;
    }
    if (got > 0) continue;
    ::shutdown(to, SHUT_WR);
    if (got < 0) ::shutdown(from, SHUT_RDWR);
    return;
  }
}

void make_blocking(int fd) {
  timeval none{};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  int yes = 0;
  ::ioctl(fd, FIONBIO, &yes);
}

/// Forwards connections to `listener`, which is in another network, to a port in this one.
void tunnel(unique_fd listener, std::uint16_t port) {
  for (;;) {
    pollfd waiting{listener.get(), POLLIN, 0};
    if (::poll(&waiting, 1, -1) <= 0) continue;
    std::optional<unique_fd> come = tcp::accept_from(listener.get());
    if (!come) continue;
    unique_fd on = tcp::connect_to({"127.0.0.1", port}, clock::now() + std::chrono::seconds(10));
    make_blocking(come->get());
    make_blocking(on.get());
    std::thread([a = std::move(*come), b = std::move(on)] {
      std::thread back([&] { carry(b.get(), a.get()); });
      carry(a.get(), b.get());
      back.join();
    }).detach();
  }
}

int be_separate_server() {
  block_end_signals();
  const bool has_own_network = std::getenv(network_variable) != nullptr;
  std::vector<unique_fd> outside;
  if (has_own_network) outside = tcp::listen_on({"127.0.0.1", 0});
  if (!enter_namespaces(std::getenv(user_variable), has_own_network)) return 90;
  if (has_own_network && !raise_loopback()) return 91;
  server s(local_server(std::getenv(key_variable)));
  if (has_own_network) {
    say("tcp://" + tcp::local_address(outside.front().get()).text());
    std::thread(tunnel, std::move(outside.front()), port_of(s)).detach();
  } else {
    say(url_of(s));
  }
  serve_until_signalled(s);
  // The tunnel's thread never ends.
  std::_Exit(0);
}
const role separate_server_role("separate_server", be_separate_server);

/// Sets the variables that the role reads in the next process.
const char* role_with(unsigned user, separate_server::network in, const std::string& key) {
  ::setenv(user_variable, std::to_string(user).c_str(), 1);
  ::setenv(key_variable, key.c_str(), 1);
  if (in == separate_server::network::own) {
    ::setenv(network_variable, "own", 1);
  } else {
    ::unsetenv(network_variable);
  }
  return "separate_server";
}

} // namespace

separate_server::separate_server(unsigned user, network in, const std::string& key)
    : process_(role_with(user, in, key)), url_(process_.line()) {
  if (!url_.starts_with("tcp://"))
    throw std::runtime_error("no separate server: exit status " + std::to_string(process_.wait()));
}

bool separate_server::is_possible() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(enter_namespaces("1001", true) && raise_loopback() ? 0 : 1);
  int status = -1;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

} // namespace farcall::test
