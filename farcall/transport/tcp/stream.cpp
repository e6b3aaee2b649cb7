// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/socket_io.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include <climits>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

/// Returns the parts that one system call can take: removes empty parts in front, and all parts
/// beyond IOV_MAX.
std::span<const iovec> trimmed(std::span<const iovec> parts) noexcept {
  while (!parts.empty() && parts.front().iov_len == 0)
    parts = parts.subspan(1);
  return parts.first(std::min<std::size_t>(parts.size(), IOV_MAX));
}

template <class Call>
socket_result transfer(int fd, std::span<const iovec> parts, Call call) noexcept {
  parts = trimmed(parts);
  if (parts.empty()) return {io_status::done, 0, 0};
  msghdr message{};
  // The cast is safe, because the kernel does not write to the array of parts.
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  ssize_t moved = 0;
  do {
    moved = call(fd, &message);
  } while (moved < 0 && errno == EINTR);
  if (moved > 0) return {io_status::done, static_cast<std::size_t>(moved), 0};
  if (moved == 0) return {io_status::closed, 0, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {io_status::would_block, 0, 0};
  return {io_status::failed, 0, errno};
}

class plain final : public stream {
 public:
  explicit plain(unique_fd fd) : stream(std::move(fd)) {}

  io_result read(std::span<const iovec> parts) noexcept override {
    const socket_result got = receive_some(fd(), parts);
    if (got.status == io_status::failed) remember(got.reason);
    if (got.status != io_status::closed) return {got.status, got.bytes};
    // The kernel reports a broken connection only once, to this reader or to a writer. Wait for a
    // writer that may just be getting the report. If the writer got it, the end that this reader
    // sees is no orderly close.
    const std::lock_guard hold(writing_);
    const int reason = reason_.load(std::memory_order_relaxed);
    return {reason == 0 || reason == EPIPE ? io_status::closed : io_status::failed, 0};
  }

  io_result write(std::span<const iovec> parts) noexcept override {
    const std::lock_guard hold(writing_);
    const socket_result put = send_some(fd(), parts);
    if (put.status == io_status::failed) remember(put.reason);
    return {put.status, put.bytes};
  }

  void finish() noexcept override { (void)::shutdown(fd(), SHUT_WR); }

  bool read_wants_write() const noexcept override { return false; }
  bool write_wants_read() const noexcept override { return false; }
  bool has_buffered() const noexcept override { return false; }
  std::string failure() const override {
    return socket_failure_text(reason_.load(std::memory_order_relaxed));
  }
  bool was_broken_off() const noexcept override {
    return is_break(reason_.load(std::memory_order_relaxed));
  }
  bool is_established() const noexcept override { return true; }

 private:
  // Keeps the first reason, which is the cause. EPIPE is replaced, because it only says that the
  // connection has failed before.
  void remember(int reason) noexcept {
    int known = reason_.load(std::memory_order_relaxed);
    while ((known == 0 || known == EPIPE) &&
           !reason_.compare_exchange_weak(known, reason, std::memory_order_relaxed)) {
    }
  }

  std::mutex writing_;         ///< held while a writer may receive the kernel's report of a failure
  std::atomic<int> reason_{0}; ///< relaxed accesses are enough, because the value publishes no
                               ///< other data
};

} // namespace

socket_result receive_some(int fd, std::span<const iovec> parts) noexcept {
  return transfer(fd, parts, [](int from, msghdr* message) noexcept {
    return ::recvmsg(from, message, MSG_DONTWAIT);
  });
}

socket_result send_some(int fd, std::span<const iovec> parts) noexcept {
  return transfer(fd, parts, [](int to, msghdr* message) noexcept {
    return ::sendmsg(to, message, MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

bool is_break(int reason) noexcept { return reason == ECONNRESET || reason == EPIPE; }

std::string socket_failure_text(int reason) {
  std::string text = reason_text(reason);
  switch (reason) {
  case 0:
    return "nothing has failed";
  case ECONNRESET:
    return text + " (the process on the other side ended, or broke the connection off)";
  case EPIPE:
    return text + " (the connection has ended)";
  case ETIMEDOUT:
    return text + " (the other side is silent: is its machine down, or the network between?)";
  case ECONNREFUSED:
    return text + " (nothing listens there: is 'farcall serve' running?)";
  default:
    return text;
  }
}

std::unique_ptr<stream> plain_stream(unique_fd fd) {
  return std::make_unique<plain>(std::move(fd));
}

} // namespace farcall::tcp
