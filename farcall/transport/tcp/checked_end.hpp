#pragma once

#include <cstdint>

namespace farcall::tcp {

/// How far the bytes of a connection have come at one end.
struct stream_position {
  std::uint64_t sent = 0; ///< given to the system
  std::uint64_t received = 0;
  bool is_full = false;      ///< nothing is received, because the connection's user does not read
  bool is_in_flight = false; ///< the system waits for an acknowledgement of what was sent
};

/// End of a connection whose peer can be asked how much has arrived; see delivery_checks. All
/// members are for the reactor's thread.
class checked_end {
 public:
  /// True if the connection has come about and has not ended.
  [[nodiscard]] virtual bool is_open() const noexcept = 0;
  [[nodiscard]] virtual stream_position position() noexcept = 0;
  /// Receives what has come, if the reactor may do so at this end.
  virtual void take_in() noexcept {}
  /// Ends a connection that is of no use any more although the peer lives, so that the user finds
  /// its end.
  virtual void end_connection() noexcept = 0;

 protected:
  ~checked_end() = default;
};

} // namespace farcall::tcp
