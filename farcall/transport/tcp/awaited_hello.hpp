#pragma once

namespace farcall::tcp {

/// The first record of a TLS client on its way. It stays in the socket until it is whole, so that
/// nothing is spent on a handshake with one who does not send it.
class awaited_hello {
 public:
  /// Also true for what is no such record, and at the end of the connection: TLS will say so.
  /// While it is false, whoever watches the socket is not called for what has come already.
  [[nodiscard]] bool is_whole(int socket) noexcept;

 private:
  [[nodiscard]] bool end_waiting(int socket) noexcept;
  void wake_from(int socket, int bytes) noexcept;

  int wakes_from_ = 1; ///< bytes that have come
};

} // namespace farcall::tcp
