// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::tcp {

/// Waits for the first record of a TLS client. The record stays in the socket until it is complete,
/// so that a client that sends only a part of it does not cause a handshake.
class awaited_hello {
 public:
  /// Returns true if TLS can begin to read: the record is complete, the bytes are no such record,
  /// or the connection has ended. TLS reports the errors in the last two cases. Always true for
  /// Unix sockets. After a result of false, the bytes that have already arrived do not wake the
  /// socket's event handler again.
  [[nodiscard]] bool is_whole(int socket) noexcept;

 private:
  [[nodiscard]] bool end_waiting(int socket) noexcept;
  void wake_from(int socket, int bytes) noexcept;

  /// Number of bytes that must be in the socket before its event handler is woken.
  int wakes_from_ = 1;
};

} // namespace farcall::tcp
