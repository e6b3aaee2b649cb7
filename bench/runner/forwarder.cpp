// SPDX-License-Identifier: Apache-2.0
#include "forwarder.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr int backlog = 1024;
constexpr std::size_t max_recorded = 4096;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

unique_fd make_socket() {
  unique_fd made{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!made) throw failed_run(fmt::format("cannot create a socket: {}", reason_text(errno)));
  return made;
}

/// Disables Nagle's algorithm, which would add to the simulated delay.
void send_at_once(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

} // namespace

forwarder::forwarder(const std::string& server_url, std::chrono::milliseconds round_trip)
    : round_trip_(round_trip), server_port_(static_cast<std::uint16_t>(
                                   std::stoul(server_url.substr(server_url.rfind(':') + 1)))),
      listener_(make_socket()), wake_(eventfd(0, EFD_CLOEXEC)) {
  if (!wake_) throw failed_run(fmt::format("cannot wait for events: {}", reason_text(errno)));
  sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_.get(), any, bytes) != 0 || listen(listener_.get(), backlog) != 0 ||
      getsockname(listener_.get(), any, &bytes) != 0)
    throw failed_run(fmt::format("cannot listen on loopback: {}", reason_text(errno)));
  url_ = fmt::format("tcp://127.0.0.1:{}", ntohs(address.sin_port));
  thread_ = library_thread("farcall-tool", [this] { run(); });
}

forwarder::~forwarder() {
  stops_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
  thread_.join();
}

std::vector<std::string> forwarder::recorded() const {
  const std::lock_guard guard(mutex_);
  return recorded_;
}

void forwarder::run() {
  while (!stops_) {
    std::vector<pollfd> watched{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::vector<std::pair<connection*, direction*>> whose;
    for (connection& c : connections_) {
      for (direction* d : {&c.to_server, &c.to_client}) {
        if (d->has_ended) continue;
        watched.push_back({d->from, POLLIN, 0});
        whose.emplace_back(&c, d);
      }
    }
    poll(watched.data(), watched.size(), milliseconds_to_wait());
    for (std::size_t i = 0; i < whose.size(); ++i) {
      if (watched[i + 2].revents != 0) read(*whose[i].first, *whose[i].second);
    }
    for (connection& c : connections_) {
      deliver(c, c.to_server);
      deliver(c, c.to_client);
    }
    connections_.remove_if([](const connection& c) {
      const auto is_over = [](const direction& d) { return d.has_ended && d.under_way.empty(); };
      return c.is_broken || (is_over(c.to_server) && is_over(c.to_client));
    });
    if (watched[1].revents != 0) accept();
  }
}

void forwarder::accept() {
  unique_fd client{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  if (!client) return;
  unique_fd server = make_socket();
  const sockaddr_in address = loopback(server_port_);
  if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return;
  send_at_once(client.get());
  send_at_once(server.get());
  connection& c = connections_.emplace_back();
  c.there_at = clock::now() + round_trip_;
  c.to_server.from = c.to_client.to = client.get();
  c.to_server.to = c.to_client.from = server.get();
  c.client = std::move(client);
  c.server = std::move(server);
  const std::lock_guard guard(mutex_);
  c.number = recorded_.size();
  recorded_.emplace_back();
}

void forwarder::read(connection& c, direction& d) {
  std::array<char, 65536> piece{};
  const ssize_t got = recv(d.from, piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) {
    c.is_broken = true;
    return;
  }
  d.has_ended = got == 0;
  if (&d == &c.to_server) {
    const std::lock_guard guard(mutex_);
    std::string& record = recorded_[c.number];
    record.append(piece.data(),
                  std::min(static_cast<std::size_t>(got), max_recorded - record.size()));
  }
  d.under_way.push_back({std::max(clock::now(), c.there_at) + round_trip_ / 2,
                         std::string(piece.data(), static_cast<std::size_t>(got))});
}

void forwarder::deliver(connection& c, direction& d) {
  const clock::time_point now = clock::now();
  for (; !d.under_way.empty() && d.under_way.front().due <= now; d.under_way.pop_front()) {
    const std::string& bytes = d.under_way.front().bytes;
    if (bytes.empty()) {
      shutdown(d.to, SHUT_WR);
      continue;
    }
    // The little data of starting jobs fits into the socket buffers.
    if (send(d.to, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
      c.is_broken = true;
  }
}

int forwarder::milliseconds_to_wait() const {
  clock::time_point first = clock::time_point::max();
  for (const connection& c : connections_) {
    for (const direction* d : {&c.to_server, &c.to_client}) {
      if (!d->under_way.empty()) first = std::min(first, d->under_way.front().due);
    }
  }
  if (first == clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0));
}

} // namespace farcall::tool
