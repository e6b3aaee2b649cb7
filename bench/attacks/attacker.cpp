// SPDX-License-Identifier: Apache-2.0
#include "attacker.hpp"

#include <farcall/base/library_thread.hpp>
#include <farcall/transport/tcp/handshake.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace farcall::tool {

namespace {

/// Source address of attackers; hosts on this machine connect from 127.0.0.1.
constexpr std::uint32_t own_address = INADDR_LOOPBACK + 1;

sockaddr_in ipv4(std::uint32_t address, std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_addr.s_addr = htonl(address);
  made.sin_port = htons(port);
  return made;
}

std::string random_bytes(std::mt19937_64& random, std::size_t most) {
  std::string bytes(1 + random() % most, '\0');
  for (char& c : bytes)
    c = static_cast<char>(random());
  return bytes;
}

const std::string& any_of(const std::vector<std::string>& texts, std::mt19937_64& random) {
  return texts[random() % texts.size()];
}

/// Returns the preamble and half of the data after it.
std::string half_of(const std::string& beginning) {
  const std::size_t head = std::min(sizeof(tcp::preamble), beginning.size());
  return beginning.substr(0, head + (beginning.size() - head) / 2);
}

} // namespace

attacker::attacker(const attack& what, std::uint16_t port) : what_(&what), port_(port) {
  thread_ = library_thread("farcall-tool", [this] { run(); });
}

attacker::~attacker() {
  stops_ = true;
  thread_.join();
}

void attacker::run() {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds turn{5};
  const clock::time_point begin = clock::now();
  std::size_t tried = 0;
  for (clock::time_point next = begin; !stops_; next += turn) {
    const std::chrono::duration<double> passed = clock::now() - begin;
    const auto due = static_cast<std::size_t>(passed.count() *
                                              static_cast<double>(what_->connections_per_second));
    for (; tried < due && !stops_; ++tried)
      connect_once();
    if (what_->is_slow) {
      for (connection& c : open_) {
        if (c.unsaid.empty()) continue;
        if (send(c.fd.get(), c.unsaid.data(), 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
          c.unsaid.erase(0, 1);
      }
    }
    std::this_thread::sleep_until(next + turn);
  }
  while (!open_.empty())
    drop_oldest();
}

void attacker::connect_once() {
  connection c{unique_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), {}};
  if (!c.fd) return;
  const sockaddr_in from = ipv4(own_address, 0);
  const sockaddr_in to = ipv4(INADDR_LOOPBACK, port_);
  if (bind(c.fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) return;
  // Non-blocking: if the server's queue is full, the connection is established later or never.
  fcntl(c.fd.get(), F_SETFL, O_NONBLOCK);
  if (connect(c.fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ||
      errno == EINPROGRESS)
    ++made_;
  if (what_->says) {
    std::string bytes = what_->says(random_);
    if (what_->is_slow) {
      c.unsaid = std::move(bytes);
    } else {
      (void)send(c.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  open_.push_back(std::move(c));
  while (open_.size() > what_->kept_open)
    drop_oldest();
}

void attacker::drop_oldest() {
  if (what_->resets) {
    const linger at_once{1, 0};
    setsockopt(open_.front().fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  open_.pop_front();
}

std::vector<attack> all_attacks(std::vector<std::string> of_before,
                                std::vector<std::string> of_running) {
  // The preamble of a lane to the running job: unencrypted, so that attackers on the path can read
  // it.
  tcp::preamble p;
  std::memcpy(&p, of_running.front().data(), std::min(sizeof p, of_running.front().size()));
  p.kind = tcp::connection_kind::lane;
  std::string lane{reinterpret_cast<const char*>(&p), sizeof p};
  return {
      {.name = "connections that say nothing", .connections_per_second = 2000, .kept_open = 400},
      {.name = "connections that are reset at once",
       .connections_per_second = 2000,
       .resets = true},
      {.name = "random bytes",
       .connections_per_second = 1000,
       .kept_open = 100,
       .says = [](auto& random) { return random_bytes(random, 512); }},
      {.name = "random bytes behind a right preamble",
       .connections_per_second = 1000,
       .kept_open = 100,
       .says = [lane](auto& random) { return lane + random_bytes(random, 512); }},
      {.name = "beginnings of others, played again",
       .connections_per_second = 500,
       .kept_open = 100,
       .says = [all = of_before](auto& random) { return any_of(all, random); }},
      {.name = "beginnings of this job, played again",
       .connections_per_second = 500,
       .kept_open = 100,
       .says = [all = of_running](auto& random) { return any_of(all, random); }},
      {.name = "half a beginning",
       .connections_per_second = 500,
       .kept_open = 400,
       .says = [all = of_before](auto& random) { return half_of(any_of(all, random)); }},
      {.name = "a byte every 5 ms",
       .connections_per_second = 200,
       .kept_open = 400,
       .says = [all = of_before](auto& random) { return any_of(all, random); },
       .is_slow = true},
      {.name = "lanes to the job that nobody proves",
       .connections_per_second = 1000,
       .kept_open = 400,
       .says = [lane](auto&) { return lane; }},
  };
}

} // namespace farcall::tool
