// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/text.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/local_port.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr const char* what = "the name of a port";

/// Random name of the port's socket. It is unique on this machine and cannot be guessed.
using socket_name = std::array<char, 32>;

socket_name random_name() {
  std::array<std::byte, 16> bits{};
  if (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    throw_system_error("making the name of a socket", errno);
  }
  socket_name name{};
  std::ranges::copy(hexadecimal(bits), name.begin());
  return name;
}

struct unix_address {
  sockaddr_un data{};
  socklen_t size = 0;
};

/// Abstract names of Unix sockets begin with a zero byte.
unix_address address_of(const socket_name& name) {
  constexpr std::string_view prefix = "farcall-";
  unix_address a;
  a.data.sun_family = AF_UNIX;
  std::memcpy(a.data.sun_path + 1, prefix.data(), prefix.size());
  std::memcpy(a.data.sun_path + 1 + prefix.size(), name.data(), name.size());
  a.size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + prefix.size() + name.size());
  return a;
}

unique_fd make_socket(int more) {
  unique_fd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | more, 0));
  if (!made) throw_system_error("making a socket (descriptor limit?)", errno);
  made.close_on_fork();
  return made;
}

constexpr std::chrono::microseconds max_wait = std::chrono::hours(1);

/// First message of a process that connects: its rank, and the port's name. Only a process that was
/// told the name can send it, so that no other process of the same user takes its place.
struct first_words {
  node_id rank = no_node;
  socket_name name{};
};

/// Largest number of connected processes that have not sent their first message yet. If one more
/// connects, the port drops the oldest of them.
constexpr std::size_t max_silent = 128;

class local_port final : public port {
 public:
  local_port()
      : name_(random_name()), listener_(make_socket(SOCK_NONBLOCK)),
        ready_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!ready_) throw_system_error("waiting for processes (descriptor limit?)", errno);
    ready_.close_on_fork();
    const unix_address at = address_of(name_);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0) {
      throw_system_error("listening for processes of this machine", errno);
    }
    watch(listener_.get());
  }

  std::vector<std::byte> name() const override {
    byte_writer w;
    w.text(network_identity());
    w.number(name_);
    return std::move(w).bytes();
  }

  int wait_fd() const noexcept override { return ready_.get(); }

  std::optional<arrival> accept() override {
    for (;;) {
      epoll_event event{};
      const int count = ::epoll_wait(ready_.get(), &event, 1, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      if (event.data.fd == listener_.get()) {
        let_in();
      } else if (std::optional<arrival> come = receive(event.data.fd)) {
        return come;
      }
    }
  }

 private:
  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw_system_error("waiting for processes", errno);
    }
  }

  void let_in() {
    unique_fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer) {
      if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) return;
      throw_system_error("taking in a process of this machine (descriptor limit?)", errno);
    }
    peer.close_on_fork();
    if (silent_.size() >= max_silent) {
      refuse(silent_.front(), "has sent no request yet, and too many other connections wait");
      silent_.pop_front();
    }
    watch(peer.get());
    silent_.push_back(std::move(peer));
  }

  std::optional<arrival> receive(int fd) {
    const auto at = std::find_if(silent_.begin(), silent_.end(),
                                 [fd](const unique_fd& s) { return s.get() == fd; });
    unique_fd peer = std::move(*at);
    silent_.erase(at);
    ::epoll_ctl(ready_.get(), EPOLL_CTL_DEL, fd, nullptr);
    first_words words;
    if (::recv(fd, &words, sizeof words, MSG_DONTWAIT) != static_cast<ssize_t>(sizeof words) ||
        words.name != name_) {
      refuse(peer, "does not know how to join");
      return std::nullopt;
    }
    const ucred who = peer_of(fd);
    if (who.uid != ::geteuid()) {
      refuse(peer, "runs as another user");
      return std::nullopt;
    }
    return arrival{words.rank, std::move(peer), true, "process " + std::to_string(who.pid), {}};
  }

  static ucred peer_of(int fd) noexcept {
    ucred who{};
    socklen_t bytes = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0) who.uid = ~uid_t{0};
    return who;
  }

  void refuse(const unique_fd& peer, const char* why) {
    refusals_.warning("process " + std::to_string(peer_of(peer.get()).pid) +
                      " connected to this job and is refused: it " + why);
  }

  socket_name name_;
  unique_fd listener_;
  unique_fd ready_;
  std::deque<unique_fd> silent_;
  log::limited_log refusals_{"more processes were refused"};
};

} // namespace

std::unique_ptr<port> open_local_port() { return std::make_unique<local_port>(); }

port_connection connect_local_port(std::span<const std::byte> name, node_id rank,
                                   time_point deadline) {
  byte_reader r(name, what);
  const std::string network = r.text();
  const first_words words{rank, r.number<socket_name>()};
  if (!r.empty()) throw malformed_message(std::string(what) + " is followed by something else");
  if (network.empty() || network != network_identity())
    throw error("the host is on another machine");
  const unix_address at = address_of(words.name);
  unique_fd socket = make_socket(0);
  // Limit the time of connect() to `deadline`, because connect() waits while the host's queue of
  // connections is full.
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - clock::now());
  const auto wait = std::clamp(left, std::chrono::microseconds(1), max_wait);
  const timeval limit{wait.count() / 1'000'000, wait.count() % 1'000'000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size) != 0) {
    throw_system_error("connecting to the host on this machine", errno);
  }
  if (::send(socket.get(), &words, sizeof words, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof words)) {
    throw_system_error("telling the host who this process is", errno);
  }
  constexpr timeval forever{};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof forever);
  return {std::move(socket), nullptr};
}

} // namespace farcall
