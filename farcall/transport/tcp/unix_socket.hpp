#pragma once

#include <farcall/base/unique_fd.hpp>

#include <optional>
#include <string>

#include <sys/types.h>

namespace farcall::tcp {

/// File of a listening Unix socket, which ends with this object.
class socket_file {
 public:
  socket_file() noexcept = default;
  /// What has just been bound at `path`.
  explicit socket_file(std::string path) noexcept;
  socket_file(socket_file&& other) noexcept;
  socket_file& operator=(socket_file&& other) noexcept;
  socket_file(const socket_file&) = delete;
  socket_file& operator=(const socket_file&) = delete;
  /// Leaves what another process has put in its place.
  ~socket_file();

 private:
  void remove() noexcept;

  std::string path_; ///< empty: none
  dev_t volume_ = 0;
  ino_t number_ = 0;
};

/// Listens at a path with the owner's rights only, whatever the umask. A socket that a process has
/// left behind there is replaced. May block for a second, while another server does the same in
/// that folder. The socket does not block and closes on exec. Throws error that
/// names the path, the reason and the remedy.
[[nodiscard]] unique_fd listen_at(const std::string& path);

/// A socket of our user's at which no process listens, nor is about to. Who listens there takes no
/// notice.
[[nodiscard]] bool is_left_behind(const std::string& path);

/// The file there is neither our user's nor root's.
[[nodiscard]] bool is_file_of_another_user(const std::string& path) noexcept;

/// A connection, or a listener, of Unix sockets.
[[nodiscard]] bool is_unix(int fd) noexcept;

/// The user whose process is at the other end of a connection; nothing where it is not one of Unix
/// sockets. Of a process that listens: who it was when it began to.
[[nodiscard]] std::optional<uid_t> peer_user(int fd) noexcept;

/// At the other end of a Unix socket is a process of neither our user nor root, who could do to us
/// what they want without it.
[[nodiscard]] bool is_of_another_user(int fd) noexcept;

} // namespace farcall::tcp
