#include <farcall/files/child_server.hpp>
#include <farcall/files/child_session.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall::files {

bool child_session::receive(void* to, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::recv(connection_, at, bytes, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// False: the client has gone, or has sent what is none.
bool child_session::take_request() {
  if (!receive(&request_, sizeof request_)) return false;
  const farcall_io_request& r = request_;
  if (r.version != FARCALL_IO_SOCKET_VERSION || r.operation >= FARCALL_IO_OPERATIONS ||
      r.path_bytes > FARCALL_IO_LONGEST_PATH || r.to_bytes > FARCALL_IO_LONGEST_PATH ||
      (r.bytes > FARCALL_IO_LARGEST_PIECE && r.operation != FARCALL_IO_ALLOCATE)) {
    return false;
  }
  words_.resize(std::size_t{r.path_bytes} + r.to_bytes);
  const bool brings = r.operation == FARCALL_IO_WRITE || r.operation == FARCALL_IO_PWRITE ||
                      r.operation == FARCALL_IO_SET_TIMES;
  data_.resize(brings ? r.bytes : 0);
  return receive(words_.data(), words_.size()) && receive(data_.data(), data_.size());
}

/// Where the answer's bytes go.
std::byte* child_session::room(std::size_t bytes) {
  answer_.resize(bytes);
  return answer_.data();
}

/// As many of them as `result` says.
std::int64_t child_session::kept(std::int64_t result) {
  answer_.resize(result > 0 ? std::min(answer_.size(), static_cast<std::size_t>(result)) : 0);
  return result;
}

/// Of a write, which the host has done then: programs end without closing what they have written,
/// and whoever waits for their end takes it to be there.
std::int64_t child_session::done(std::int64_t written) {
  if (written < 0) return written;
  const std::int64_t error = files_.flush(request_.file);
  return error < 0 ? error : written;
}

std::int64_t child_session::open(std::string_view path) {
  farcall_io_opened opened{};
  const std::int64_t result =
      server_.open(path, static_cast<int>(request_.flags), request_.mode, opened);
  if (result < 0) return result;
  passed_ = unique_fd(opened.descriptor);
  opened.descriptor = -1;
  std::memcpy(room(sizeof opened), &opened, sizeof opened);
  return 0;
}

std::int64_t child_session::on_file() {
  const farcall_io_request& r = request_;
  switch (r.operation) {
  case FARCALL_IO_CLOSE:
    return server_.close(r.file);
  case FARCALL_IO_READ:
    return kept(files_.read(r.file, room(r.bytes), r.bytes));
  case FARCALL_IO_PREAD:
    return kept(files_.pread(r.file, room(r.bytes), r.bytes, r.offset));
  case FARCALL_IO_WRITE:
    return done(files_.write(r.file, data_.data(), data_.size()));
  case FARCALL_IO_PWRITE:
    return done(files_.pwrite(r.file, data_.data(), data_.size(), r.offset));
  case FARCALL_IO_SEEK:
    return files_.seek(r.file, r.offset, static_cast<int>(r.flags));
  case FARCALL_IO_SET_FLAGS:
    return files_.set_flags(r.file, static_cast<int>(r.flags));
  case FARCALL_IO_FSTAT: {
    farcall_io_status status{};
    const std::int64_t result = files_.fstat(r.file, status);
    if (result == 0) std::memcpy(room(sizeof status), &status, sizeof status);
    return result;
  }
  case FARCALL_IO_FTRUNCATE:
    return files_.ftruncate(r.file, r.offset);
  case FARCALL_IO_FSYNC:
    return files_.fsync(r.file, r.flags != 0);
  case FARCALL_IO_ALLOCATE:
    return files_.allocate(r.file, static_cast<int>(r.flags), r.offset,
                           static_cast<std::int64_t>(r.bytes));
  case FARCALL_IO_LIST:
    return kept(files_.list(r.file, room(r.bytes), r.bytes));
  default:
    return -ENOSYS;
  }
}

std::int64_t child_session::on_path(const paths& named) {
  const farcall_io_request& r = request_;
  switch (r.operation) {
  case FARCALL_IO_OPEN:
    return open(named.first);
  case FARCALL_IO_STAT: {
    farcall_io_status status{};
    const std::int64_t result = files_.stat(named.first, r.flags != 0, status);
    if (result == 0) std::memcpy(room(sizeof status), &status, sizeof status);
    return result;
  }
  case FARCALL_IO_ACCESS:
    return files_.access(named.first, static_cast<int>(r.flags));
  case FARCALL_IO_TRUNCATE:
    return files_.truncate(named.first, r.offset);
  case FARCALL_IO_UNLINK:
    return files_.unlink(named.first);
  case FARCALL_IO_RMDIR:
    return files_.rmdir(named.first);
  case FARCALL_IO_MKDIR:
    return files_.mkdir(named.first, r.mode);
  case FARCALL_IO_RENAME:
    return files_.rename(named.first, named.second, r.flags);
  case FARCALL_IO_READ_LINK:
    return kept(files_.read_link(named.first, reinterpret_cast<char*>(room(r.bytes)), r.bytes));
  case FARCALL_IO_LINK:
    return files_.link(named.first, named.second, r.flags != 0);
  case FARCALL_IO_SYMLINK:
    return files_.symlink(named.first, named.second);
  case FARCALL_IO_SET_MODE:
    return files_.set_mode(r.file, named.first, r.mode);
  case FARCALL_IO_SET_OWNER:
    return files_.set_owner(r.file, named.first, r.flags != 0, r.user, r.group);
  case FARCALL_IO_SET_TIMES: {
    farcall_io_times times{};
    if (data_.size() != sizeof times) return -EINVAL;
    std::memcpy(&times, data_.data(), sizeof times);
    return files_.set_times(r.file, named.first, r.flags != 0, times);
  }
  case FARCALL_IO_SPACE: {
    farcall_io_space space{};
    const std::int64_t result = files_.space(r.file, named.first, space);
    if (result == 0) std::memcpy(room(sizeof space), &space, sizeof space);
    return result;
  }
  default:
    return on_file();
  }
}

bool child_session::answer(std::int64_t result) noexcept {
  farcall_io_answer head{result, answer_.size()};
  std::array<iovec, 2> parts{iovec{&head, sizeof head}, iovec{answer_.data(), answer_.size()}};
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
    const std::string_view words(words_.data(), words_.size());
    answer_.clear();
    const std::int64_t result =
        on_path({words.substr(0, request_.path_bytes), words.substr(request_.path_bytes)});
    if (!answer(result)) return;
  }
}

} // namespace farcall::files
