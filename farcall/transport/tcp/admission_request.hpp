// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/connect_attempts.hpp>
#include <farcall/transport/tcp/handshake.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <poll.h>

namespace farcall::tcp {

/// Error text if a host does not use a server because another user owns the server.
inline constexpr const char* another_users_server =
    "that server is another user's; without a key (FARCALL_KEY) only one's own is used";

/// A host's request to a server for admission, from the first connection attempt until the server
/// admits the host at one of the server's addresses. The request never blocks, so that its owner
/// can wait for many requests at once.
class admission_request {
 public:
  /// `name` is the name of the server in error texts. The first call of advance() begins to
  /// connect.
  admission_request(std::vector<socket_address> where, std::string name, const preamble& first)
      : attempts_(std::move(where)), name_(std::move(name)), first_(first) {}

  /// Continues the request as far as possible without blocking, and returns true once the server
  /// has admitted the host. Throws error with the reasons if all addresses have failed, or if one
  /// has refused and the others stay silent for a while. If connections are not encrypted, sends no
  /// byte over a Unix socket to a process of another user.
  [[nodiscard]] bool advance(time_point now);
  /// Adds the descriptors for which the owner must wait. The owner calls advance() again when one
  /// of them is ready, and at the latest at the time that next_poll() returns.
  void watch(std::vector<pollfd>& all) const;
  [[nodiscard]] time_point next_poll() const noexcept {
    return std::min(attempts_.next_start(), silent_until_);
  }
  /// True if no connection could be made yet because the listener's backlog is full.
  [[nodiscard]] bool is_server_busy() const noexcept {
    return candidates_.empty() && attempts_.is_listener_busy();
  }
  /// Throws timeout or error, whose text names the step that has not happened in time.
  [[noreturn]] void throw_overdue();

  /// Returns the admitted connection.
  [[nodiscard]] unique_fd take() noexcept { return std::move(socket_); }

 private:
  /// A connection to one of the addresses, over which the preamble was sent.
  struct candidate {
    unique_fd socket;
    std::string peer;
    admission_message reply;
    std::size_t have = 0; ///< number of bytes of the reply that were received
  };

  void take_connected();
  [[nodiscard]] bool receive_replies();
  [[nodiscard]] bool receive(candidate& from);
  void give_up(const candidate& c, const std::string& why);
  void give_up_silent();
  [[nodiscard]] std::string failure_text() const;

  connect_attempts attempts_;
  std::string name_;
  preamble first_;
  std::vector<candidate> candidates_;
  std::string refusal_;     ///< refusal by the last candidate that has failed
  bool is_refused_ = false; ///< a server has refused
  /// Point in time from which addresses that have not replied count as silent.
  time_point silent_until_ = no_deadline;
  unique_fd socket_; ///< the admitted connection
};

} // namespace farcall::tcp
