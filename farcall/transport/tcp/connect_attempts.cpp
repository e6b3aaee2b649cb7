// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/connect_attempts.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

/// Time without a reply after which the next address is tried: the "connection attempt delay" that
/// RFC 8305 recommends.
constexpr std::chrono::milliseconds silence{250};
/// Pause before the next attempt to connect to a listener whose backlog is full.
constexpr std::chrono::milliseconds busy{20};

} // namespace

std::vector<int> connect_attempts::start_due(time_point now) {
  std::vector<int> begun;
  while (next_ < where_.size() && next_start() <= now) {
    const socket_address to = where_[next_++];
    busy_.clear();
    try {
      under_way_.push_back({start_connect(to), to});
      under_way_.back().socket.close_on_fork();
      begun.push_back(under_way_.back().socket.get());
      silent_until_ = now + silence;
    } catch (const listener_busy& e) {
      // Move this address behind the addresses that were not tried yet.
      const auto at = where_.begin() + static_cast<std::ptrdiff_t>(--next_);
      std::rotate(at, at + 1, where_.end());
      busy_ = e.what();
      not_before_ = now + busy;
    } catch (const error& e) {
      note(e.what());
    }
  }
  return begun;
}

time_point connect_attempts::next_start() const noexcept {
  if (next_ == where_.size()) return no_deadline;
  return std::max(not_before_, is_any_open() ? silent_until_ : time_point{});
}

std::vector<int> connect_attempts::sockets() const {
  std::vector<int> all;
  for (const attempt& a : under_way_)
    all.push_back(a.socket.get());
  return all;
}

int connect_attempts::outcome_of(int socket) noexcept {
  pollfd decided{socket, POLLOUT, 0};
  if (::poll(&decided, 1, 0) <= 0) return EINPROGRESS;
  int reason = 0;
  socklen_t size = sizeof reason;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &reason, &size) != 0) return errno;
  if (reason != 0) return reason;
  // Count a socket that is connected to itself as refused. The system can make such a connection if
  // no process listens at the port, because it may choose the same port for the socket's own end.
  return is_connected_to_itself(socket) ? ECONNREFUSED : 0;
}

unique_fd connect_attempts::take(int socket) noexcept {
  const auto at =
      std::ranges::find(under_way_, socket, [](const attempt& a) { return a.socket.get(); });
  unique_fd taken = std::move(at->socket);
  under_way_.erase(at);
  ++taken_;
  // Give this address the full time once more before the next address is tried, because this
  // address has replied.
  silent_until_ = clock::now() + silence;
  return taken;
}

void connect_attempts::fail(int socket, int reason) {
  const auto at =
      std::ranges::find(under_way_, socket, [](const attempt& a) { return a.socket.get(); });
  note(connect_failure_text(at->to, reason));
  under_way_.erase(at);
}

void connect_attempts::give_up_taken(const std::string& failure) {
  --taken_;
  note(failure);
}

std::string connect_attempts::failures() const {
  std::string all = failures_;
  if (!busy_.empty()) all += (all.empty() ? "" : ", ") + busy_;
  for (const attempt& a : under_way_) {
    all += (all.empty() ? "" : ", ") + a.to.text() +
           ": no reply in time; is the machine up, and does a firewall let us through?";
  }
  return all;
}

void connect_attempts::note(const std::string& failure) {
  failures_ += (failures_.empty() ? "" : ", ") + failure;
}

} // namespace farcall::tcp
