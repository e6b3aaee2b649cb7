// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <optional>
#include <string>

#include <sys/types.h>

namespace farcall::tcp {

/// File of a Unix socket that listens. The destructor removes the file.
class socket_file {
 public:
  socket_file() noexcept = default;
  /// Takes charge of the file that bind() has just made at `path`.
  explicit socket_file(std::string path) noexcept;
  socket_file(socket_file&& other) noexcept;
  socket_file& operator=(socket_file&& other) noexcept;
  socket_file(const socket_file&) = delete;
  socket_file& operator=(const socket_file&) = delete;
  /// Removes the file unless another process has replaced it.
  ~socket_file();

 private:
  void remove() noexcept;

  std::string path_; ///< empty if there is no file to remove
  dev_t volume_ = 0;
  ino_t number_ = 0;
};

/// Listens at a path. The socket's file gets mode 0600, whatever the umask is. Replaces an
/// abandoned socket. Waits for up to a second if another process has locked the folder, for
/// instance a server that starts there at the same time. The socket is non-blocking and
/// close-on-exec. Throws error with the path, the reason and the remedy.
[[nodiscard]] unique_fd listen_at(const std::string& path);

/// True if the path is an abandoned socket of this process's user: no process listens at it, and
/// none has bound it in order to listen. A listener does not notice this check.
[[nodiscard]] bool is_left_behind(const std::string& path);

/// True if the owner of the file is neither this process's user nor root.
[[nodiscard]] bool is_file_of_another_user(const std::string& path) noexcept;

/// True if the descriptor is a Unix socket, which may be a listener or a connection.
[[nodiscard]] bool is_unix(int fd) noexcept;

/// Returns the user of the process at the other end of a Unix socket; nullopt if `fd` is no Unix
/// socket. For a connection to a listener, this is the user who has called listen().
[[nodiscard]] std::optional<uid_t> peer_user(int fd) noexcept;

/// True if the process at the other end of a Unix socket runs neither as this process's user nor as
/// root. Root is trusted, because it could harm this process in other ways, too.
[[nodiscard]] bool is_of_another_user(int fd) noexcept;

} // namespace farcall::tcp
