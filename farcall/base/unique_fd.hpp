// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <utility>

#include <unistd.h>

namespace farcall {

/// Owns a file descriptor; the destructor closes it. Used by one thread at a time.
class unique_fd {
 public:
  unique_fd() noexcept = default;
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  unique_fd(const unique_fd&) = delete;
  unique_fd& operator=(const unique_fd&) = delete;
  ~unique_fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept {
    unmark(fd_);
    return std::exchange(fd_, -1);
  }
  void reset() noexcept {
    if (fd_ < 0) return;
    // Unmark the descriptor before it is closed. After the close, another thread may at once get
    // the same number for a new descriptor, which must not be unmarked.
    unmark(fd_);
    ::close(fd_);
    fd_ = -1;
  }

  /// Makes the child of each fork close the descriptor. Meant for descriptors such as sockets,
  /// because a peer detects the end of a socket only when all processes have closed it. In the
  /// child, the number of the descriptor refers to an unused object afterwards. Throws
  /// std::bad_alloc.
  void close_on_fork();

 private:
  static void unmark(int fd) noexcept;

  int fd_ = -1;
};

} // namespace farcall
