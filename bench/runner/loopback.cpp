// SPDX-License-Identifier: Apache-2.0
#include "loopback.hpp"
#include "spin.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

namespace farcall::tool {

namespace {

/// Bytes per system call: larger pieces make a copy no faster, and this size fits into the caches.
constexpr std::size_t piece = std::size_t{1} << 20;

[[noreturn]] void fail(const char* what) {
  throw failed_run(fmt::format("{}: {}", what, reason_text(errno)));
}

/// Disables Nagle's algorithm, which would hold back every second small message.
void send_at_once(int fd) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("cannot set TCP_NODELAY");
}

} // namespace

unique_fd listen_on_loopback() {
  unique_fd listener{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener.get() < 0 ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 1) != 0) {
    fail("cannot listen on loopback");
  }
  return listener;
}

unique_fd connect_to_loopback(int listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  unique_fd connection{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (getsockname(listener, any, &size) != 0 || connection.get() < 0 ||
      connect(connection.get(), any, size) != 0) {
    fail("cannot connect over loopback");
  }
  send_at_once(connection.get());
  return connection;
}

unique_fd accept_on_loopback(int listener) {
  unique_fd connection{accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)};
  if (connection.get() < 0) fail("cannot accept over loopback");
  send_at_once(connection.get());
  return connection;
}

polling_stream::polling_stream(unique_fd socket, std::uint32_t yield_every)
    : socket_(std::move(socket)), yield_every_(yield_every) {}

bool polling_stream::try_again() {
  if (errno != EAGAIN && errno != EINTR) return false;
  spin_pause();
  if (++vain_ % yield_every_ == 0) sched_yield();
  return true;
}

bool polling_stream::receive(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::recv(socket_.get(), to.data(), std::min(to.size(), piece), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && !try_again())) return false;
    if (got > 0) to = to.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool polling_stream::send(std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t done = ::send(socket_.get(), from.data(), std::min(from.size(), piece),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done < 0 && !try_again()) return false;
    if (done > 0) from = from.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

void polling_stream::sleep_until_readable() const {
  pollfd waiting{socket_.get(), POLLIN, 0};
  poll(&waiting, 1, 1000);
}

} // namespace farcall::tool
