#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace farcall::tcp {

/// Where somebody listens: the name or the number of a host, and a port; or the path of a Unix
/// socket.
struct address {
  std::string host; ///< IPv6 numbers without brackets; what begins with '/' is a path
  std::uint16_t port = 0;

  [[nodiscard]] bool is_path() const noexcept { return host.starts_with('/'); }
  /// "host:port" or "/path", as parse_server_address takes it.
  [[nodiscard]] std::string text() const;
  /// "tcp://host:port" or "unix:///path", as hosts name a server.
  [[nodiscard]] std::string url() const;
  bool operator==(const address&) const = default;
};

/// Reads "host:port", "192.0.2.1:port" or "[::1]:port". Port 0, "any that is free", is for
/// listeners only. Throws setting_error that begins with `what` otherwise.
[[nodiscard]] address parse_address(std::string_view text, const std::string& what,
                                    bool zero_port_allowed = false);

/// The same, or the "/path" of a Unix socket.
[[nodiscard]] address parse_server_address(std::string_view text, const std::string& what,
                                           bool zero_port_allowed = false);

/// Address in the form the kernel takes.
class socket_address {
 public:
  socket_address() noexcept = default;
  socket_address(const sockaddr* data, socklen_t size) noexcept;

  /// Of a Unix socket. Throws error for a path that is longer than the system takes.
  [[nodiscard]] static socket_address of_path(const std::string& path);

  [[nodiscard]] const sockaddr* data() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  [[nodiscard]] socklen_t size() const noexcept { return size_; }
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const noexcept;
  void set_port(std::uint16_t port) noexcept;

  /// True for 127.0.0.0/8, also inside IPv6 (::ffff:127.0.0.1), for ::1, and for Unix sockets:
  /// nobody elsewhere gets there.
  [[nodiscard]] bool is_loopback() const noexcept;
  /// True for fe80::/10, which holds only beside the name of an interface.
  [[nodiscard]] bool is_of_link() const noexcept;
  /// True for 0.0.0.0 and ::, which stand for all addresses of a machine.
  [[nodiscard]] bool is_any() const noexcept;

  /// Host in numbers, and port; or path, which is empty for a Unix socket that has none.
  [[nodiscard]] address numeric() const;
  [[nodiscard]] std::string text() const { return numeric().text(); }

  bool operator==(const socket_address& other) const { return numeric() == other.numeric(); }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// Reads a "host:port" whose host is in numbers, or a "/path"; asks nobody. `what` is for messages.
/// Throws malformed_message for anything else.
[[nodiscard]] socket_address numeric_address(const std::string& text, const char* what);

/// All addresses of the host, each once, in the order in which the system wants them tried. Blocks
/// while name servers are asked. Throws error that names the host when there are none.
[[nodiscard]] std::vector<socket_address> resolve(const address& where);

} // namespace farcall::tcp
