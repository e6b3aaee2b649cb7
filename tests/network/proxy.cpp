// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxy.hpp"

#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::test {
namespace {

constexpr std::size_t max_recorded = 4096;
constexpr std::size_t max_waiting = std::size_t{1} << 20;
constexpr int poll_interval_ms = 2;

unique_fd connect_to_port(std::uint16_t port) {
  return tcp::connect_to({"127.0.0.1", port}, clock::now() + std::chrono::seconds(10));
}

} // namespace

proxy::proxy(std::uint16_t server_port) : server_port_(server_port) {
  auto listeners = tcp::listen_on({"127.0.0.1", 0});
  listener_ = std::move(listeners.front());
  port_ = tcp::local_address(listener_.get()).port;
  thread_ = std::thread([this] { run(); });
}

proxy::~proxy() {
  stops_ = true;
  thread_.join();
}

std::vector<std::string> proxy::recorded() const {
  const std::lock_guard guard(mutex_);
  return recorded_;
}

bool proxy::has_ended(std::size_t number) const {
  const std::lock_guard guard(mutex_);
  const auto at = std::ranges::find(pairs_, number, &pair::number);
  return number < recorded_.size() && (at == pairs_.end() || at->client.has_ended);
}

void proxy::end_connections(std::size_t from, bool reset) {
  const std::lock_guard guard(mutex_);
  for (pair& p : pairs_) {
    if (p.number < from || !reset) continue;
    const linger at_once{1, 0};
    for (const int fd : {p.client.fd.get(), p.server.fd.get()})
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  pairs_.remove_if([&](const pair& p) { return p.number >= from; });
}

void proxy::take() {
  while (auto socket = tcp::accept_from(listener_.get())) {
    if (turns_away_) continue;
    pair p;
    p.client.fd = std::move(*socket);
    try {
      p.server.fd = connect_to_port(server_port_);
    } catch (const std::exception&) {
      continue;
    }
    const std::lock_guard guard(mutex_);
    p.number = recorded_.size();
    recorded_.emplace_back();
    pairs_.push_back(std::move(p));
  }
}

void proxy::read(side& from, side& to, std::string* record, bool swallows) const {
  if (!from.has_ended && to.waiting.size() < max_waiting) {
    char piece[65536];
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
    const ssize_t got = ::recv(from.fd.get(), piece, sizeof piece, MSG_DONTWAIT);
    if (got > 0) {
      // A preamble arrives in one read.
      if (const std::uint32_t node = leads_to_;
          record != nullptr && record->empty() && node != no_node &&
          got >= static_cast<ssize_t>(sizeof(tcp::preamble))) {
        std::memcpy(piece + offsetof(tcp::preamble, to), &node, sizeof node);
      }
      const bool is_swallowed = swallows && from.come >= swallowed_behind_;
      from.come += static_cast<std::size_t>(got);
      if (!is_swallowed) to.waiting.append(piece, static_cast<std::size_t>(got));
      if (record != nullptr && record->size() < max_recorded) {
        record->append(piece, static_cast<std::size_t>(got));
      }
    } else if (got == 0 || errno != EAGAIN) {
      from.has_ended = true;
    }
  }
}

void proxy::write(side& from, side& to, std::size_t most) {
  while (!to.waiting.empty() && most != 0) {
    const ssize_t put = ::send(to.fd.get(), to.waiting.data(), std::min(most, to.waiting.size()),
                               MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN) to.waiting.clear();
    if (put <= 0) break;
    to.waiting.erase(0, static_cast<std::size_t>(put));
    most -= static_cast<std::size_t>(put);
  }
  if (from.has_ended && to.waiting.empty()) ::shutdown(to.fd.get(), SHUT_WR);
}

std::size_t proxy::slow_budget() {
  const time_point now = clock::now();
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(now - paced_).count();
  if (ms == 0) return 0;
  paced_ = now;
  return std::min<std::size_t>(pace_ * static_cast<std::size_t>(ms) / 1000, pace_);
}

std::size_t proxy::most_of(const pair& p, std::size_t slow) const {
  return p.number == 0 || pace_ == 0 ? SIZE_MAX : slow;
}

bool proxy::are_held() const {
  const auto said =
      std::ranges::count_if(pairs_, [](const pair& p) { return !p.client.waiting.empty(); });
  return static_cast<std::size_t>(said) < held_clients_;
}

void proxy::run() {
  while (!stops_) {
    if (is_silent_) {
      ::usleep(poll_interval_ms * 1000);
      continue;
    }
    std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
    {
      const std::lock_guard guard(mutex_);
      for (const pair& p : pairs_) {
        for (const side* s : {&p.client, &p.server}) {
          const short in = s->has_ended ? 0 : POLLIN;
          const short out = s->waiting.empty() || pace_ != 0 ? 0 : POLLOUT;
          watched.push_back({s->fd.get(), static_cast<short>(in | out), 0});
        }
      }
    }
    ::poll(watched.data(), watched.size(), poll_interval_ms);
    if (stops_ || is_silent_) continue;
    {
      const std::lock_guard guard(mutex_);
      const std::size_t slow = slow_budget();
      for (pair& p : pairs_) {
        const way swallowed = p.number == 0 ? way::none : swallowed_.load();
        read(p.client, p.server, &recorded_[p.number], swallowed == way::to_server);
        read(p.server, p.client, nullptr, swallowed == way::to_client);
        write(p.client, p.server, most_of(p, slow));
      }
      if (!are_held()) {
        for (pair& p : pairs_)
          write(p.server, p.client, most_of(p, slow));
      }
      pairs_.remove_if([](const pair& p) { return p.client.has_ended && p.server.has_ended; });
    }
    take();
  }
}

raw_client::raw_client(std::uint16_t port, const char* from)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const tcp::socket_address own = tcp::resolve({from, 0}).front();
  const tcp::socket_address there = tcp::resolve({"127.0.0.1", port}).front();
  if (::bind(fd_.get(), own.data(), own.size()) != 0 ||
      ::connect(fd_.get(), there.data(), there.size()) != 0) {
    throw_system_error("connecting to the server from " + std::string(from), errno);
  }
}

bool raw_client::send(const std::string& bytes) {
  return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool raw_client::is_ended_within(std::chrono::milliseconds bound) {
  const time_point end = clock::now() + bound;
  while (clock::now() < end) {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, poll_interval_ms) <= 0) continue;
    char piece[4096];
    const ssize_t got = ::recv(fd_.get(), piece, sizeof piece, MSG_DONTWAIT);
    if (got > 0) {
      received_.append(piece, static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EAGAIN) {
      return true;
    }
  }
  return false;
}

} // namespace farcall::test
