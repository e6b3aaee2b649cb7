// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace farcall::tcp {

/// Address of a listener: a host's name or number and a port, or the path of a Unix socket.
struct address {
  std::string host; ///< name or number of a host (IPv6 without brackets), or a path if it begins
                    ///< with '/'
  std::uint16_t port = 0;

  [[nodiscard]] bool is_path() const noexcept { return host.starts_with('/'); }
  /// Returns "host:port" or "/path", which parse_server_address() accepts.
  [[nodiscard]] std::string text() const;
  /// Returns "tcp://host:port" or "unix:///path", the form in which hosts name a server.
  [[nodiscard]] std::string url() const;
  bool operator==(const address&) const = default;
};

/// Reads "host:port", "192.0.2.1:port" or "[::1]:port". Port 0, which means any free port, is
/// allowed for listeners only. For any other text, throws setting_error that begins with `what`.
[[nodiscard]] address parse_address(std::string_view text, const std::string& what,
                                    bool zero_port_allowed = false);

/// Reads an address like parse_address(), or the "/path" of a Unix socket.
[[nodiscard]] address parse_server_address(std::string_view text, const std::string& what,
                                           bool zero_port_allowed = false);

/// Socket address in the form that the kernel uses.
class socket_address {
 public:
  socket_address() noexcept = default;
  socket_address(const sockaddr* data, socklen_t size) noexcept;

  /// Returns the address of a Unix socket. Throws error if the path is longer than the system
  /// allows.
  [[nodiscard]] static socket_address of_path(const std::string& path);

  [[nodiscard]] const sockaddr* data() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  [[nodiscard]] socklen_t size() const noexcept { return size_; }
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const noexcept;
  void set_port(std::uint16_t port) noexcept;

  /// True for addresses that only this machine reaches: 127.0.0.0/8, also in its IPv6 form
  /// (::ffff:127.0.0.1), ::1, and Unix sockets.
  [[nodiscard]] bool is_loopback() const noexcept;
  /// True for fe80::/10 (link-local), which is valid only together with an interface's name.
  [[nodiscard]] bool is_of_link() const noexcept;
  /// True for 0.0.0.0 and ::, which stand for all addresses of a machine.
  [[nodiscard]] bool is_any() const noexcept;

  /// Returns the host in numbers and the port, or the path. The path is empty if the Unix socket
  /// has no name.
  [[nodiscard]] address numeric() const;
  [[nodiscard]] std::string text() const { return numeric().text(); }

  bool operator==(const socket_address& other) const { return numeric() == other.numeric(); }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// Reads a "host:port" whose host is in numbers, or a "/path". Makes no DNS query. `what` names the
/// text in errors. Throws malformed_message for any other text.
[[nodiscard]] socket_address numeric_address(const std::string& text, const char* what);

/// Returns all addresses of the host, each once, in the order in which the system recommends to try
/// them. Blocks while name servers are queried. Throws error that names the host if it has no
/// address.
[[nodiscard]] std::vector<socket_address> resolve(const address& where);

} // namespace farcall::tcp
