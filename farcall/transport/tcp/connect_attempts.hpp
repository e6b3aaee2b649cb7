// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace farcall::tcp {

/// Attempts to connect to several addresses, of which the owner uses the first that replies, like
/// happy eyeballs (RFC 8305). The next address is tried if each earlier address has failed, or has
/// not replied for 250 ms. Earlier attempts continue meanwhile. The owner waits until one of
/// sockets() is writable, and at most until next_start(). A connection that the owner has taken
/// still counts as an open attempt, until the owner gives it up or destroys this object.
class connect_attempts {
 public:
  /// `where` has the addresses in the order in which they are tried.
  explicit connect_attempts(std::vector<socket_address> where) : where_(std::move(where)) {}

  /// Begins the attempts that are due at `now`, and returns their sockets.
  std::vector<int> start_due(time_point now);
  /// Returns the time at which start_due() has to be called next; no_deadline if no address is
  /// left.
  [[nodiscard]] time_point next_start() const noexcept;
  /// Returns the sockets of the attempts that are in progress.
  [[nodiscard]] std::vector<int> sockets() const;

  /// Returns the state of an attempt: 0 if connected, EINPROGRESS, or the errno value of the
  /// failure.
  [[nodiscard]] static int outcome_of(int socket) noexcept;
  /// Gives a connected socket to the caller, and removes it from sockets().
  [[nodiscard]] unique_fd take(int socket) noexcept;
  /// Records that an attempt has failed, and closes its socket.
  void fail(int socket, int reason);
  /// Records that a connection has failed after the owner has taken it.
  void give_up_taken(const std::string& failure);

  /// True if all attempts have failed: no attempt is in progress, the owner has given up all
  /// connections that it took, and no address is left.
  [[nodiscard]] bool have_failed() const noexcept {
    return !is_any_open() && next_ == where_.size();
  }
  /// Number of addresses.
  [[nodiscard]] std::size_t addresses() const noexcept { return where_.size(); }
  /// True if a listener's backlog is full. The attempt at this listener is repeated.
  [[nodiscard]] bool is_listener_busy() const noexcept { return !busy_.empty(); }
  /// Returns the failure of each address, including the addresses that have not replied.
  [[nodiscard]] std::string failures() const;

 private:
  struct attempt {
    unique_fd socket;
    socket_address to;
  };
  [[nodiscard]] bool is_any_open() const noexcept { return !under_way_.empty() || taken_ != 0; }
  void note(const std::string& failure);

  std::vector<socket_address> where_;
  std::size_t next_ = 0;
  /// Time at which the next address is tried even if earlier attempts are still in progress.
  time_point silent_until_{};
  /// Error text of the last attempt if the listener's backlog was full; empty otherwise.
  std::string busy_;
  /// Earliest time of the next attempt at a listener whose backlog was full.
  time_point not_before_{};
  std::vector<attempt> under_way_;
  std::size_t taken_ = 0; ///< number of connections taken and not given up
  std::string failures_;
};

} // namespace farcall::tcp
