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

/// Why such a server is not used.
inline constexpr const char* another_users_server =
    "that server is another user's; without a key (FARCALL_KEY) only one's own is used";

/// A host's connection to a server, from the first attempt until the server lets it in at one of
/// its addresses. It never waits, so that its owner can wait for many at a time.
class admission_request {
 public:
  /// `name` stands for the addresses in errors. Nothing begins yet.
  admission_request(std::vector<socket_address> where, std::string name, const preamble& first)
      : attempts_(std::move(where)), name_(std::move(name)), first_(first) {}

  /// Goes on as far as it can without waiting; true once the server has let us in. Throws error
  /// with the reason why it does not, also while other addresses are silent. If connections are
  /// not encrypted, another user's process is told nothing.
  [[nodiscard]] bool advance(time_point now);
  /// Adds what it waits for, besides the time of next_look().
  void watch(std::vector<pollfd>& all) const;
  [[nodiscard]] time_point next_look() const noexcept {
    return std::min(attempts_.next_start(), silent_until_);
  }
  /// The server has as many connections waiting as may.
  [[nodiscard]] bool is_server_busy() const noexcept {
    return candidates_.empty() && attempts_.is_listener_busy();
  }
  /// Throws error, and timeout, that says what has not happened in time.
  [[noreturn]] void throw_overdue();

  /// The connection that was let in.
  [[nodiscard]] unique_fd take() noexcept { return std::move(socket_); }

 private:
  /// An address that has replied, and was sent the preamble.
  struct candidate {
    unique_fd socket;
    std::string peer;
    admission_message reply;
    std::size_t have = 0; ///< bytes of it
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
  std::string refusal_;     ///< the last of a candidate
  bool is_refused_ = false; ///< a server has said so
  /// Then the addresses that are left count as silent.
  time_point silent_until_ = no_deadline;
  unique_fd socket_; ///< let in
};

} // namespace farcall::tcp
