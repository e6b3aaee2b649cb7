// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/awaited_hello.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <array>
#include <cerrno>
#include <cstddef>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

constexpr unsigned char handshake_record = 22;
/// Largest length that a TLS record may have (RFC 8446, 5.1).
constexpr std::size_t max_bytes = std::size_t{1} << 14;

} // namespace

bool awaited_hello::is_whole(int socket) noexcept {
  // Do not wait for a complete record on a Unix socket. SO_RCVLOWAT does not affect polls of Unix
  // sockets, so that each byte would wake the event handler. Only users that may access the
  // socket's file can connect there.
  if (is_unix(socket)) return end_waiting(socket);
  std::array<unsigned char, 5> header{};
  const ssize_t got = ::recv(socket, header.data(), header.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) return end_waiting(socket);
  std::size_t wanted = header.size();
  if (got == static_cast<ssize_t>(header.size())) {
    const std::size_t length = std::size_t{header[3]} << 8 | header[4];
    if (header[0] != handshake_record || length > max_bytes) return end_waiting(socket);
    wanted += length;
  }
  int come = 0;
  pollfd end{socket, POLLRDHUP, 0};
  if (::ioctl(socket, FIONREAD, &come) != 0 || static_cast<std::size_t>(come) >= wanted ||
      ::poll(&end, 1, 0) != 0) {
    return end_waiting(socket);
  }
  wake_from(socket, static_cast<int>(wanted));
  return false;
}

bool awaited_hello::end_waiting(int socket) noexcept {
  if (wakes_from_ != 1) wake_from(socket, 1);
  return true;
}

void awaited_hello::wake_from(int socket, int bytes) noexcept {
  // Ignore a failure, which only causes some needless wake-ups of the event handler.
  (void)::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
  wakes_from_ = bytes;
}

} // namespace farcall::tcp
