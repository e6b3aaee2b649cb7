// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace farcall::tcp {

/// How many bytes one end of a connection has sent and received, not counting the connect request.
struct stream_position {
  std::uint64_t sent = 0; ///< written to the socket
  std::uint64_t received = 0;
  /// True if bytes from the peer may wait in the socket, because the user of this end does not read
  /// at present.
  bool is_full = false;
  bool is_in_flight = false; ///< true if the system waits for an acknowledgement of sent bytes
};

/// An end of a connection whose bytes are checked for delivery; see delivery_checks. All members
/// are called on the loop's thread.
class checked_end {
 public:
  /// True if the connection is established and has not ended.
  [[nodiscard]] virtual bool is_open() const noexcept = 0;
  [[nodiscard]] virtual stream_position position() noexcept = 0;
  /// Receives the bytes that have arrived. Does nothing at an end whose bytes only the copying
  /// thread may receive.
  virtual void take_in() noexcept {}
  /// Ends the connection, whose bytes do not arrive although the peer lives. The user of this end
  /// then finds that the connection has ended.
  virtual void end_connection() noexcept = 0;

 protected:
  ~checked_end() = default;
};

} // namespace farcall::tcp
