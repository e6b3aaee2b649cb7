// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/limited_log.hpp>
#include <farcall/base/version.hpp>
#include <farcall/files/child_server.hpp>
#include <farcall/files/child_session.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall::files {
namespace {

/// Returns the request of a message, without data and result.
farcall_io_request to_request(const farcall_io_message& m, const char* texts) noexcept {
  return {.operation = m.operation,
          .flags = m.flags,
          .mode = m.mode,
          .file = m.file,
          .offset = m.offset,
          .bytes = m.bytes,
          .path = {texts, m.path_bytes},
          .to = {texts + m.path_bytes, m.to_bytes},
          .data = nullptr,
          .data_bytes = m.data_bytes,
          .result = nullptr,
          .result_bytes = m.result_bytes};
}

std::string version_name(std::uint32_t release, std::uint32_t version) {
  return "farcall " + release_text(release) + " (version " + std::to_string(version) + ")";
}

/// Warns that the client at the other end of the connection speaks another version of the protocol.
void warn_of_version(int connection, const farcall_io_message& m) {
  static auto& lines = *new log::limited_log("more clients of another version were refused");
  ucred who{};
  socklen_t bytes = sizeof who;
  (void)::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
  // Versions before the first one with a release have the operation in its place.
  const std::uint32_t release = m.version < FARCALL_IO_FIRST_VERSION_WITH_RELEASE ? 0 : m.release;
  lines.warning("process " + std::to_string(who.pid) +
                " cannot use files of the host: its libfarcall-io.so or farcall-mount speaks "
                "another version of the files' protocol than this target: " +
                version_name(this_release, FARCALL_IO_SOCKET_VERSION) + " in the target, " +
                version_name(release, m.version) +
                " in the process; start both with the same farcall");
}

} // namespace

/// Receives at most this many bytes, and descriptors that come with them. Returns the number of
/// bytes, or 0 if the connection has ended.
std::size_t child_session::receive_some(void* to, std::size_t bytes, int flags) noexcept {
  for (;;) {
    iovec part{to, bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(connection_, &message, flags | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < std::min(count, received_files_.size()); ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
        received_files_[i] = unique_fd(fd);
      }
    }
    return static_cast<std::size_t>(got);
  }
}

/// Receives exactly this many bytes. Returns false if the connection ends before.
bool child_session::receive(void* to, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const std::size_t got = receive_some(at, bytes, MSG_WAITALL);
    if (got == 0) return false;
    at += got;
    bytes -= got;
  }
  return true;
}

/// Receives the beginning of a message. Returns false if the connection ends before, or if the
/// message is of another version, whose messages may be shorter.
bool child_session::receive_head(farcall_io_message& m) {
  constexpr std::size_t versions = offsetof(farcall_io_message, operation);
  for (std::size_t have = 0; have < sizeof m;) {
    const std::size_t got = receive_some(reinterpret_cast<char*>(&m) + have, sizeof m - have, 0);
    if (got == 0) return false;
    have += got;
    if (have >= versions && m.version != FARCALL_IO_SOCKET_VERSION) {
      warn_of_version(connection_, m);
      return false;
    }
  }
  return true;
}

/// Receives the next request into request_, and performs the requests without a reply before it.
/// Returns false if the client has closed the connection, or if the bytes are not a valid request.
bool child_session::take_request() {
  for (;;) {
    farcall_io_message m{};
    if (!receive_head(m) || m.path_bytes > FARCALL_IO_LONGEST_PATH ||
        m.to_bytes > FARCALL_IO_LONGEST_PATH || m.data_bytes > FARCALL_IO_LARGEST_PIECE ||
        m.result_bytes > FARCALL_IO_LARGEST_PIECE)
      return false;
    if (shared_.is_mapped()) return take_shared_request(m);
    // A client may send any number of these two requests, which have no reply.
    if (m.operation == FARCALL_IO_SHARE) {
      if (!share(m.bytes)) return false;
    } else if (m.operation == FARCALL_IO_WATCH) {
      if (!server_.watch().add(std::move(received_files_.front()))) return false;
    } else {
      return take_request(m);
    }
  }
}

/// Takes a request whose path, text and data follow its head.
bool child_session::take_request(const farcall_io_message& m) {
  if (m.operation >= farcall_io_operations) return false;
  received_.begin(m.path_bytes + m.to_bytes + m.data_bytes);
  result_.begin(m.result_bytes);
  // Clear the memory of a structure, because the client may ask for more bytes than it has.
  if ((traits_of(static_cast<operation>(m.operation)) & FARCALL_IO_FILLS) != 0)
    std::memset(result_.data(), 0, result_.size());
  const auto* const texts = reinterpret_cast<const char*>(received_.data());
  request_ = to_request(m, texts);
  request_.data = texts + m.path_bytes + m.to_bytes;
  request_.result = result_.data();
  return receive(received_.data(), received_.size());
}

/// Takes a request of a mount's helper, whose data and result are in the shared memory.
bool child_session::take_shared_request(const farcall_io_message& m) {
  if (m.operation >= farcall_io_operations && m.operation != FARCALL_IO_FLUSH &&
      m.operation != FARCALL_IO_SERVE)
    return false;
  received_.begin(m.path_bytes + m.to_bytes);
  request_ = to_request(m, reinterpret_cast<const char*>(received_.data()));
  request_.data = shared_.at(m.data_at, m.data_bytes);
  request_.result = shared_.at(m.result_at, m.result_bytes);
  return request_.data != nullptr && request_.result != nullptr &&
         receive(received_.data(), received_.size());
}

/// Maps the memory file that came with the last request. From then on the client is the helper of a
/// mount.
bool child_session::share(std::uint64_t bytes) noexcept {
  const unique_fd file = std::move(received_files_.front());
  if (!shared_.map(file, bytes)) return false;
  mounted_.emplace(server_.mounted());
  return true;
}

/// Performs the request. Afterwards the bytes of its reply are in result_, and a descriptor for the
/// reply is in passed_.
std::int64_t child_session::perform() noexcept {
  if (mounted_ && request_.operation == FARCALL_IO_SERVE) {
    auto& [device, helper] = received_files_;
    if (!device || !helper) return -EINVAL;
    return server_.mounted().serve(std::move(device), std::move(helper),
                                   (request_.flags & FARCALL_IO_NOT_AHEAD) != 0);
  }
  if (mounted_) return server_.mounted().perform(request_, passed_);
  const auto what = static_cast<operation>(request_.operation);
  // Wait for the host in each write. The client may end without closing the file, and the program
  // that waits for its end expects the file to be complete then.
  const std::int64_t result =
      what == operation::write ? files_.write_through(request_) : server_.perform(request_);
  if (result < 0) {
    result_.shorten(0);
  } else if ((traits_of(what) & FARCALL_IO_FILLS) == 0) {
    result_.shorten(static_cast<std::size_t>(result));
  }
  if (what == operation::open && result >= 0) {
    auto& opened = *reinterpret_cast<farcall_io_opened*>(result_.data());
    passed_ = unique_fd(std::exchange(opened.descriptor, -1));
  }
  return result;
}

bool child_session::reply(std::int64_t result) noexcept {
  farcall_io_reply head{result, result_.size()};
  std::array<iovec, 2> parts{iovec{&head, sizeof head}, iovec{result_.data(), result_.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (passed_) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = passed_.get();
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(connection_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    passed_.reset();
    message.msg_control = nullptr;
    message.msg_controllen = 0;
    auto left = static_cast<std::size_t>(sent);
    for (iovec& part : parts) {
      const std::size_t gone = std::min(left, part.iov_len);
      part = {static_cast<char*>(part.iov_base) + gone, part.iov_len - gone};
      left -= gone;
    }
    if (parts[0].iov_len == 0 && parts[1].iov_len == 0) return true;
  }
}

void child_session::run() {
  while (take_request()) {
    if (!reply(perform())) return;
    received_.end();
    result_.end();
  }
}

} // namespace farcall::files
