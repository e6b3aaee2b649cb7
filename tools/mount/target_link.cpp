// SPDX-License-Identifier: Apache-2.0
#include "target_link.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/memory_file.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/version.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/io_socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

namespace farcall::mount {
namespace {

/// Time after which a thread that waits for the target looks whether the target is ending.
constexpr timeval look_after{0, 50'000};

/// Number of bytes for data that is not in the memory for requests, for instance times.
constexpr std::size_t small_data = 4096;
constexpr std::size_t small_data_at = target_link::max_request + target_link::max_result;
constexpr std::size_t all_memory = small_data_at + small_data;

/// Flags of /proc/PID/stat for a thread that is ending: PF_EXITING, and PF_DUMPCORE and
/// PF_SIGNALED, which the threads of a process that ends by a signal have while one of them waits
/// for the others.
constexpr unsigned long is_exiting = 0x4 | 0x200 | 0x400;
constexpr unsigned long long kill_signal = 1ULL << (9 - 1);

/// Reads a file of /proc as a text. Returns an empty text if there is none.
std::string read_text(const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t got = file ? ::read(file.get(), text.data(), text.size() - 1) : -1;
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : std::string();
}

/// True if the thread with this folder of /proc runs no further code of its program.
bool is_ending(const std::string& folder) {
  const std::string stat = read_text(folder + "/stat");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return true; // it has gone
  char state = 0;
  unsigned long flags = 0;
  if (std::sscanf(stat.c_str() + name_end + 1, " %c %*d %*d %*d %*d %*d %lu", &state, &flags) ==
          2 &&
      (state == 'Z' || state == 'X' || (flags & is_exiting) != 0))
    return true;
  const std::string status = read_text(folder + "/status");
  for (const char* const key : {"SigPnd:", "ShdPnd:"}) {
    const std::size_t at = status.find(key);
    unsigned long long pending = 0;
    if (at != std::string::npos && std::sscanf(status.c_str() + at + 7, "%llx", &pending) == 1 &&
        (pending & kill_signal) != 0)
      return true;
  }
  return false;
}

/// Returns the time for which a thread has run, and how often, if it is a thread of the library
/// that waits in the system and cannot be interrupted. Returns an empty text otherwise.
std::string progress_of_blocked(const std::string& folder) {
  const std::string stat = read_text(folder + "/stat");
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos || stat.at(name_end + 2) != 'D' ||
      stat.find("(farcall-service)") == std::string::npos)
    return {};
  return read_text(folder + "/schedstat");
}

/// True if an operation that replies a number of bytes has at most as many as were asked for.
bool is_in_bounds(std::uint32_t what, std::int64_t result, std::size_t bytes) noexcept {
  const unsigned traits = files::traits_of(static_cast<files::operation>(what));
  return (traits & FARCALL_IO_FILLS) != 0 || result <= static_cast<std::int64_t>(bytes);
}

/// Returns the name of the mount namespace of a process, or an empty text.
std::string namespace_of(const std::string& process) {
  std::array<char, 100> name{};
  const ssize_t got =
      ::readlink(("/proc/" + process + "/ns/mnt").c_str(), name.data(), name.size());
  return got > 0 ? std::string(name.data(), static_cast<std::size_t>(got)) : std::string();
}

/// True if /proc shows a process of this number in this process's namespace of mounts. Otherwise
/// /proc is of another namespace of processes, and the number may be another process's.
bool shares_mounts(const std::string& process) {
  const std::string own = namespace_of("self");
  return !own.empty() && namespace_of(process) == own;
}

} // namespace

target_process::target_process(std::string socket, pid_t pid)
    : socket_(std::move(socket)), pid_(pid), is_in_proc_(shares_mounts(std::to_string(pid))),
      end_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
  if (!end_) throw error("the target cannot be watched: " + reason_text(errno));
}

bool target_process::has_ended() noexcept {
  if (ended_.load(std::memory_order_relaxed)) return true;
  pollfd end{end_.get(), POLLIN, 0};
  if (::poll(&end, 1, 0) == 1 || have_threads_ended())
    ended_.store(true, std::memory_order_relaxed);
  return ended_.load(std::memory_order_relaxed);
}

bool target_process::have_threads_ended() const noexcept {
  if (!is_in_proc_) return false;
  const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
  DIR* const all = ::opendir(tasks.c_str());
  // end_ tells when the process has gone.
  if (all == nullptr) return false;
  int threads = 0;
  while (const dirent* const each = ::readdir(all))
    threads += each->d_name[0] != '.' ? 1 : 0;
  ::rewinddir(all);
  // A target has several threads. With one, it is executing another program, and this thread may
  // wait for a request that the others would have served. The system does not tell the state of
  // such a thread before that.
  bool found = true;
  while (const dirent* const each = threads > 1 ? ::readdir(all) : nullptr) {
    if (each->d_name[0] != '.' && !is_ending(tasks + "/" + each->d_name)) {
      found = false;
      break;
    }
  }
  ::closedir(all);
  return found;
}

bool target_process::is_blocked(unsigned looks) {
  if (!is_in_proc_) return false;
  const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
  std::map<std::string, blocked_thread> found;
  bool is_long = false;
  std::error_code ignored;
  for (const auto& each : std::filesystem::directory_iterator(tasks, ignored)) {
    std::string progress = progress_of_blocked(each.path());
    if (progress.empty()) continue;
    const std::string thread = each.path().filename();
    const auto before = blocked_.find(thread);
    const bool is_same = before != blocked_.end() && before->second.progress == progress;
    const unsigned count = is_same ? before->second.looks + 1 : 1;
    is_long = is_long || count >= looks;
    found[thread] = {std::move(progress), count};
  }
  blocked_ = std::move(found);
  return is_long;
}

unique_fd target_process::open_log() const {
  if (!is_in_proc_) return {};
  const std::string file = "/proc/" + std::to_string(pid_) + "/fd/2";
  return unique_fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
}

unique_fd target_process::connect() const noexcept {
  unique_fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) return {};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socket_.size());
  (void)::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &look_after, sizeof look_after);
  (void)::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &look_after, sizeof look_after);
  ucred peer{};
  socklen_t peer_bytes = sizeof peer;
  if (::connect(made.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::getsockopt(made.get(), SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0 ||
      peer.uid != ::geteuid())
    return {};
  return made;
}

target_link::target_link(target_process& to)
    : to_(to), file_(make_memory_file("farcall-mount", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (::ftruncate(file_.get(), static_cast<off_t>(all_memory)) != 0 ||
      ::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    throw error("no memory to share with the target: " + reason_text(errno));
  void* const mapped =
      ::mmap(nullptr, all_memory, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED)
    throw error("no memory to share with the target: " + reason_text(errno));
  memory_ = static_cast<std::byte*>(mapped);
}

target_link::~target_link() { ::munmap(memory_, all_memory); }

/// Sends a message with its texts, and up to two descriptors.
bool target_link::send(const void* head, std::size_t bytes, const farcall_io_request& asked,
                       std::span<const int> passed) noexcept {
  std::array<iovec, 3> parts{iovec{const_cast<void*>(head), bytes},
                             iovec{const_cast<char*>(asked.path.at), asked.path.bytes},
                             iovec{const_cast<char*>(asked.to.at), asked.to.bytes}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!passed.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(passed.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(passed.size_bytes());
    std::memcpy(CMSG_DATA(rights), passed.data(), passed.size_bytes());
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(connection_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN && !to_.has_ended()) continue;
    // A message is shorter than the socket's buffer, so that it is sent as a whole.
    return sent == static_cast<ssize_t>(bytes + asked.path.bytes + asked.to.bytes);
  }
}

bool target_link::receive(void* to, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    iovec part{at, bytes};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(connection_.get(), &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN && !to_.has_ended()) continue;
    if (got <= 0) return false;
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
      // The aligned buffer has space for two descriptors. Only the last one is kept.
      const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
        passed_ = unique_fd(fd);
      }
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Connects, and passes the memory to the target.
bool target_link::begin() noexcept {
  if (to_.has_ended()) return false;
  connection_ = to_.connect();
  farcall_io_message hello{};
  hello.version = FARCALL_IO_SOCKET_VERSION;
  hello.release = this_release;
  hello.operation = FARCALL_IO_SHARE;
  hello.bytes = all_memory;
  const int file = file_.get();
  if (connection_ && send(&hello, sizeof hello, {}, {&file, 1})) return true;
  connection_.reset();
  return false;
}

/// Returns the position of `at` in the memory, or `otherwise` if it is elsewhere.
std::uint64_t target_link::position_of(const void* at, std::size_t bytes,
                                       std::size_t otherwise) const noexcept {
  const auto* const p = static_cast<const std::byte*>(at);
  const bool is_inside =
      p >= memory_ && p < memory_ + all_memory && p + bytes <= memory_ + all_memory;
  return is_inside ? static_cast<std::uint64_t>(p - memory_) : otherwise;
}

std::int64_t target_link::perform(const farcall_io_request& asked,
                                  std::span<const int> passed) noexcept {
  if (!connection_ && !begin()) return -EIO;
  farcall_io_message m{};
  m.version = FARCALL_IO_SOCKET_VERSION;
  m.release = this_release;
  m.operation = asked.operation;
  m.flags = asked.flags;
  m.mode = asked.mode;
  m.file = asked.file;
  m.offset = asked.offset;
  m.bytes = asked.bytes;
  m.path_bytes = asked.path.bytes;
  m.to_bytes = asked.to.bytes;
  m.data_bytes = asked.data_bytes;
  m.result_bytes = std::min(asked.result_bytes, max_result);
  m.data_at = position_of(asked.data, asked.data_bytes, small_data_at);
  m.result_at = position_of(asked.result, m.result_bytes, max_request);
  if (m.data_at == small_data_at && asked.data_bytes > 0) {
    if (asked.data_bytes > small_data) return -EINVAL;
    std::memcpy(memory_ + small_data_at, asked.data, asked.data_bytes);
  }
  farcall_io_reply reply{};
  passed_.reset();
  if (!send(&m, sizeof m, asked, passed) || !receive(&reply, sizeof reply) || reply.bytes != 0) {
    connection_.reset();
    return -EIO;
  }
  if (asked.result_bytes > 0 && !is_in_bounds(asked.operation, reply.result, m.result_bytes))
    return -EIO;
  if (reply.result >= 0 && asked.result != nullptr && asked.result != memory_ + m.result_at)
    std::memcpy(asked.result, memory_ + m.result_at, m.result_bytes);
  return reply.result;
}

std::int64_t target_link::read(std::uint64_t file, void* to, std::size_t bytes, std::int64_t offset,
                               bool is_ahead) noexcept {
  return perform({.operation = farcall_io_op_read,
                  .flags = is_ahead ? FARCALL_IO_NOT_AHEAD : 0,
                  .file = file,
                  .offset = offset,
                  .bytes = bytes,
                  .result = to,
                  .result_bytes = bytes});
}

std::int64_t target_link::serve(int device, int requests, bool reads_ahead) noexcept {
  const std::array<int, 2> passed{device, requests};
  return perform({.operation = FARCALL_IO_SERVE, .flags = reads_ahead ? FARCALL_IO_NOT_AHEAD : 0},
                 passed);
}

std::int64_t target_link::flush(std::uint64_t file) noexcept {
  return perform({.operation = FARCALL_IO_FLUSH, .file = file});
}

std::int64_t target_link::open(const std::string& path, int flags, std::uint32_t mode,
                               farcall_io_opened_status& opened) noexcept {
  return perform({.operation = farcall_io_op_open,
                  .flags = flags,
                  .mode = mode,
                  .path = FARCALL_IO_TEXT(path),
                  .result = &opened,
                  .result_bytes = sizeof opened});
}

std::int64_t target_link::reopen(std::uint64_t file, int flags,
                                 farcall_io_opened_status& opened) noexcept {
  return perform({.operation = farcall_io_op_reopen,
                  .flags = flags,
                  .file = file,
                  .result = &opened,
                  .result_bytes = sizeof opened});
}

} // namespace farcall::mount
