// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tcp {
namespace {

/// Longest backlog that the system allows, because a nonblocking connect to a Unix socket fails if
/// the backlog is full.
constexpr int max_queue = SOMAXCONN;

std::string path_hint(int reason) {
  switch (reason) {
  case ENOENT:
  case ENOTDIR:
    return "; make its folder first";
  case EACCES:
  case EROFS:
    return "; choose a folder that you can write to";
  default:
    return "";
  }
}

/// Returns a text that says what occupies the path, and the remedy; empty if the path is free.
std::string obstacle_text(const std::string& path) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return "";
  if (S_ISDIR(found.st_mode)) {
    return "a folder is there: name a path in it that does not exist, such as " + path +
           (path.ends_with('/') ? "" : "/") + "farcall.socket";
  }
  if (!S_ISSOCK(found.st_mode)) {
    const std::string kind = S_ISREG(found.st_mode)   ? "a file"
                             : S_ISLNK(found.st_mode) ? "a symbolic link"
                                                      : "something";
    return kind + " is there that is no socket: remove it, or choose another path";
  }
  if (found.st_uid != ::geteuid()) {
    return "a socket of user " + std::to_string(found.st_uid) +
           " is there: choose another path, or have that user remove it";
  }
  return "another server listens there: end it, or choose another path";
}

[[noreturn]] void cannot_listen_at(const std::string& path, int reason) {
  const std::string obstacle = reason == EADDRINUSE ? obstacle_text(path) : "";
  throw error("cannot listen on " + path + ": " +
              (obstacle.empty() ? reason_text(reason) + path_hint(reason) : obstacle));
}

unique_fd make_unix_socket(int type = SOCK_STREAM) noexcept {
  return unique_fd(::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool is_refused(int type, const socket_address& at) noexcept {
  const unique_fd attempt = make_unix_socket(type);
  return attempt && ::connect(attempt.get(), at.data(), at.size()) != 0 && errno == ECONNREFUSED;
}

/// Locks the folder of a socket. If several servers find an abandoned socket, the lock ensures that
/// one of them replaces it, and that none replaces another server's new socket. Returns no
/// descriptor if access to the folder is denied. Also gives up after a second, because other
/// processes can hold the lock as long as they like.
unique_fd lock_folder_of(const std::string& path) noexcept {
  constexpr int attempts = 100;
  const std::string folder = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  unique_fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    if (i == attempts) lock.reset();
    ::usleep(10'000);
  }
  return lock;
}

} // namespace

socket_file::socket_file(std::string path) noexcept {
  struct stat file{};
  if (::lstat(path.c_str(), &file) != 0) return;
  path_ = std::move(path);
  volume_ = file.st_dev;
  number_ = file.st_ino;
}

socket_file::socket_file(socket_file&& other) noexcept
    : path_(std::exchange(other.path_, {})), volume_(other.volume_), number_(other.number_) {}

socket_file& socket_file::operator=(socket_file&& other) noexcept {
  if (this == &other) return *this;
  remove();
  path_ = std::exchange(other.path_, {});
  volume_ = other.volume_;
  number_ = other.number_;
  return *this;
}

socket_file::~socket_file() { remove(); }

void socket_file::remove() noexcept {
  struct stat file{};
  if (!path_.empty() && ::lstat(path_.c_str(), &file) == 0 && file.st_dev == volume_ &&
      file.st_ino == number_) {
    ::unlink(path_.c_str());
  }
  path_.clear();
}

bool is_left_behind(const std::string& path) {
  struct stat file{};
  if (::lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode) || file.st_uid != ::geteuid()) {
    return false;
  }
  const socket_address at = socket_address::of_path(path);
  // First try to connect with a datagram socket, which a listener does not notice. If a stream
  // socket is bound to the path, Linux refuses this attempt with EPROTOTYPE. Other systems may
  // refuse it with ECONNREFUSED even if a process listens, so that the second attempt uses a stream
  // socket.
  return is_refused(SOCK_DGRAM, at) && is_refused(SOCK_STREAM, at);
}

unique_fd listen_at(const std::string& path) {
  const socket_address at = socket_address::of_path(path);
  const unique_fd lock = lock_folder_of(path);
  unique_fd made = make_unix_socket();
  // Set the mode before bind(), because Linux gives the file the mode of the socket, so that the
  // file never has more rights.
  if (!made || ::fchmod(made.get(), S_IRUSR | S_IWUSR) != 0) cannot_listen_at(path, errno);
  if (::bind(made.get(), at.data(), at.size()) != 0) {
    const int reason = errno;
    if (reason != EADDRINUSE || !is_left_behind(path)) cannot_listen_at(path, reason);
    if (!lock) {
      throw error(
          "cannot listen on " + path +
          ": a socket was left there, and its folder is locked "
          "by another process, or cannot be read; remove the socket, or choose another path");
    }
    if (::unlink(path.c_str()) != 0 || ::bind(made.get(), at.data(), at.size()) != 0) {
      cannot_listen_at(path, errno);
    }
  }
  if (::listen(made.get(), max_queue) != 0) {
    const int reason = errno;
    ::unlink(path.c_str());
    cannot_listen_at(path, reason);
  }
  return made;
}

bool is_file_of_another_user(const std::string& path) noexcept {
  struct stat file{};
  return ::stat(path.c_str(), &file) == 0 && file.st_uid != ::geteuid() && file.st_uid != 0;
}

bool is_unix(int fd) noexcept {
  int family = 0;
  socklen_t size = sizeof family;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX;
}

std::optional<uid_t> peer_user(int fd) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (!is_unix(fd) || ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::nullopt;
  }
  return peer.uid;
}

bool is_of_another_user(int fd) noexcept {
  if (!is_unix(fd)) return false;
  const std::optional<uid_t> user = peer_user(fd);
  return !user || (*user != ::geteuid() && *user != 0);
}

} // namespace farcall::tcp
