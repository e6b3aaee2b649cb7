// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/transport/control_queue.hpp>
#include <farcall/transport/control_socket.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace farcall {
namespace {

constexpr std::size_t max_files = 8;
constexpr std::size_t max_message = std::size_t{64} << 10;

control_queue::end end_of(bool is_first) noexcept {
  return is_first ? control_queue::end::first : control_queue::end::second;
}

} // namespace

int poll_timeout(time_point deadline) noexcept {
  if (deadline == time_point::max()) return -1;
  const time_point now = clock::now();
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<decltype(left)>(left, 1'000'000'000));
}

std::pair<control_socket, control_socket> control_socket::make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_system_error("making a control socket (descriptor limit, 'ulimit -n'?)", errno);
  }
  return {control_socket(unique_fd(ends[0])), control_socket(unique_fd(ends[1]))};
}

std::pair<control_socket, control_socket> control_socket::make_pair_in_memory() {
  const auto queue = std::make_shared<control_queue>();
  return {control_socket(queue, true), control_socket(queue, false)};
}

control_socket& control_socket::operator=(control_socket&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::move(other.fd_);
  queue_ = std::move(other.queue_);
  is_first_ = other.is_first_;
  return *this;
}

void control_socket::close() noexcept {
  fd_.reset();
  if (const auto queue = std::exchange(queue_, nullptr)) queue->close(end_of(is_first_));
}

bool control_socket::send(control kind, std::span<const std::byte> body, std::span<const int> files,
                          time_point deadline) {
  if (body.size() > max_message - sizeof kind || files.size() > max_files) {
    throw error("a control message has at most " + std::to_string(max_message - sizeof kind) +
                " bytes and " + std::to_string(max_files) + " descriptors; this one would have " +
                std::to_string(body.size()) + " and " + std::to_string(files.size()));
  }
  if (queue_) {
    if (!files.empty()) throw error("descriptors cannot be sent to another machine");
    return queue_->send(end_of(is_first_), kind, body, deadline);
  }
  iovec parts[2] = {{&kind, sizeof kind}, {const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(max_files * sizeof(int))> attached{};
  if (!files.empty()) {
    message.msg_control = attached.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  for (;;) {
    if (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    const int reason = errno;
    switch (reason) {
    case EINTR:
      continue;
    case EPIPE:
    case ECONNRESET:
    case EBADF:
      return false;
    case EAGAIN:
    case ETOOMANYREFS:
    case ENOBUFS:
    case ENOMEM:
      break;
    default:
      throw_system_error("sending to a target's control socket", reason);
    }
    if (clock::now() >= deadline) return false;
    // If the socket is full, wait with poll(). After any other failure, sleep and try again: for
    // instance, too many descriptors may be in flight, and the system has no event for their
    // arrival.
    if (reason == EAGAIN) {
      pollfd waiting{fd_.get(), POLLOUT, 0};
      ::poll(&waiting, 1, poll_timeout(deadline));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

bool control_socket::try_send(control kind, std::span<const std::byte> body) noexcept {
  if (queue_) {
    try {
      return queue_->send(end_of(is_first_), kind, body, clock::now());
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  iovec parts[2] = {{&kind, sizeof kind}, {const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

std::optional<control_message> control_socket::receive(time_point deadline) {
  if (queue_) return queue_->receive(end_of(is_first_), deadline);
  if (!fd_) return std::nullopt;
  for (;;) {
    pollfd waiting{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, poll_timeout(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    break;
  }
  std::vector<std::byte> bytes(max_message);
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(max_files * sizeof(int))> attached{};
  message.msg_control = attached.data();
  message.msg_controllen = attached.size();
  ssize_t got = 0;
  bool was_reset = false;
  do {
    got = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
    // After ECONNRESET, receive once more. This error means that the other side has closed the
    // socket without reading everything. The system reports it once, before the messages that the
    // other side had sent, which can still be received.
  } while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(was_reset, true))));
  if (got <= 0) return std::nullopt;

  control_message received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      received.files.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    throw error("a descriptor sent to this process could not be taken: the descriptor limit is "
                "reached (raise it with 'ulimit -n')");
  }
  if (static_cast<std::size_t>(got) < sizeof received.kind ||
      (message.msg_flags & MSG_TRUNC) != 0) {
    throw malformed_message("a control message has an impossible size");
  }
  std::memcpy(&received.kind, bytes.data(), sizeof received.kind);
  received.body.assign(bytes.begin() + sizeof received.kind, bytes.begin() + got);
  // Wipe this buffer, too, because the receiver of a secret can wipe only the message that it gets.
  wipe(std::span(bytes).first(static_cast<std::size_t>(got)));
  return received;
}

bool control_socket::is_ready() const {
  if (queue_) return queue_->is_ready(end_of(is_first_));
  if (!fd_) return true;
  pollfd waiting{fd_.get(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

bool control_socket::is_disconnected() const {
  if (queue_) return queue_->is_disconnected();
  if (!fd_) return true;
  pollfd state{fd_.get(), 0, 0};
  return ::poll(&state, 1, 0) == 1;
}

bool control_socket::has_ended() const {
  return queue_ ? queue_->has_ended(end_of(is_first_)) : !fd_;
}

void control_socket::on_arrival(std::function<void()> call) {
  if (queue_) queue_->on_arrival(end_of(is_first_), std::move(call));
}

void require_control_socket(int fd) {
  int type = 0;
  int domain = 0;
  socklen_t bytes = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_SEQPACKET ||
      ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_UNIX) {
    throw setting_error("descriptor " + std::to_string(fd) +
                        " is no socket between a host and a process that joins its job; make both "
                        "ends with socketpair(AF_UNIX, SOCK_SEQPACKET, …)");
  }
}

} // namespace farcall
