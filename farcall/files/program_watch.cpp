// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log.hpp>
#include <farcall/files/program_watch.hpp>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Maximum number of programs that the warning names.
constexpr std::size_t max_named = 8;

/// Position of the path among the arguments of a system call; the folder comes before it, or is -1.
struct place_of_path {
  int folder;
  std::size_t path;
};

std::optional<place_of_path> find_path(int number) noexcept {
  switch (number) {
  case SYS_openat:
  case SYS_newfstatat:
  case SYS_statx:
  case SYS_faccessat:
  case SYS_mkdirat:
  case SYS_unlinkat:
  case SYS_readlinkat:
#ifdef SYS_openat2
  case SYS_openat2:
#endif
#ifdef SYS_faccessat2
  case SYS_faccessat2:
#endif
    return place_of_path{0, 1};
#ifdef SYS_open
  case SYS_open:
  case SYS_creat:
  case SYS_stat:
  case SYS_lstat:
  case SYS_access:
  case SYS_mkdir:
  case SYS_unlink:
  case SYS_rmdir:
  case SYS_readlink:
  case SYS_rename:
#endif
  case SYS_truncate:
    return place_of_path{-1, 0};
  default:
    return std::nullopt;
  }
}

/// Reads a text with a terminating zero from another process. Returns an empty text on failure.
std::string text_in(pid_t process, std::uint64_t address) {
  std::string text;
  std::array<char, PATH_MAX> piece{};
  constexpr std::uint64_t page = 4096;
  while (text.size() < PATH_MAX) {
    // The page after this one may not exist.
    const std::uint64_t bytes = page - address % page;
    const iovec here{piece.data(), bytes};
    const iovec there{reinterpret_cast<void*>(address), bytes}; // NOLINT(performance-no-int-to-ptr)
    const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) return {};
    const std::size_t length = ::strnlen(piece.data(), static_cast<std::size_t>(got));
    text.append(piece.data(), length);
    if (length < static_cast<std::size_t>(got)) return text;
    address += static_cast<std::uint64_t>(got);
  }
  return {};
}

std::string link_of(const std::string& path) {
  std::array<char, PATH_MAX> text{};
  const ssize_t got = ::readlink(path.c_str(), text.data(), text.size());
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : std::string();
}

std::string name_of(std::uint32_t process) {
  const unique_fd file(
      ::open(("/proc/" + std::to_string(process) + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 64> name{};
  const ssize_t got = file ? ::read(file.get(), name.data(), name.size()) : -1;
  return got > 1 ? std::string(name.data(), static_cast<std::size_t>(got) - 1) : "a program";
}

/// Returns the absolute path that a call names, or an empty text.
std::string path_of(const seccomp_notif& call) {
  const auto place = find_path(call.data.nr);
  if (!place) return {};
  const std::string path = text_in(static_cast<pid_t>(call.pid), call.data.args[place->path]);
  if (path.empty() || path.front() == '/') return path;
  const std::string process = "/proc/" + std::to_string(call.pid);
  const int folder = place->folder < 0 ? AT_FDCWD : static_cast<int>(call.data.args[0]);
  const std::string base =
      link_of(folder == AT_FDCWD ? process + "/cwd" : process + "/fd/" + std::to_string(folder));
  return base.empty() || base.front() != '/' ? std::string() : base + '/' + path;
}

} // namespace

program_watch::program_watch(std::span<const prefix> prefixes)
    : prefixes_(prefixes), loop_(common_event_loop()) {}

bool program_watch::add(unique_fd listener) noexcept {
  try {
    const std::lock_guard guard(mutex_);
    if (is_finished_ || !listener) return false;
    const int fd = listener.get();
    listener.close_on_fork();
    listeners_.emplace(fd, std::move(listener));
    loop_->add(fd, EPOLLIN, std::make_shared<function_handler>([this, fd] { take_report(fd); }));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Runs on the event loop's thread. Takes one report, and lets the program continue.
void program_watch::take_report(int listener) noexcept {
  seccomp_notif call{};
  if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
    // ENOENT: the program was killed meanwhile. Other errors: all its processes have ended.
    if (errno == ENOENT || errno == EINTR) return;
    loop_->remove(listener);
    const std::lock_guard guard(mutex_);
    listeners_.erase(listener);
    return;
  }
  try {
    note(call.pid, path_of(call));
  } catch (const std::bad_alloc&) {
    // Without memory for its path, the warning lacks this call.
  }
  seccomp_notif_resp reply{};
  reply.id = call.id;
  reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  (void)::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

void program_watch::note(std::uint32_t process, const std::string& path) {
  if (path.empty() || !find_prefix(prefixes_, path)) return;
  const std::string name = name_of(process);
  const std::lock_guard guard(mutex_);
  use& of_program = uses_[name];
  if (of_program.calls++ == 0) of_program.first = path;
}

std::string program_watch::text() {
  const std::lock_guard guard(mutex_);
  if (uses_.empty()) return {};
  std::string all;
  std::size_t named = 0;
  for (const auto& [name, of_program] : uses_) {
    if (++named > max_named) break;
    all += (all.empty() ? "" : ", ") + name + " (" + std::to_string(of_program.calls) +
           " calls, the first for " + of_program.first + ")";
  }
  if (uses_.size() > max_named)
    all += ", and " + std::to_string(uses_.size() - max_named) + " more";
  return "programs that make system calls themselves have used this machine's files at paths of "
         "the host: " +
         all + "; use a mount (--host-files-by=mount), or programs that use libc";
}

void program_watch::finish() noexcept {
  std::map<int, unique_fd> all;
  {
    const std::lock_guard guard(mutex_);
    if (std::exchange(is_finished_, true)) return;
    for (const auto& [fd, listener] : listeners_)
      loop_->remove(fd);
  }
  loop_->drain();
  {
    const std::lock_guard guard(mutex_);
    all.swap(listeners_);
  }
  try {
    if (const std::string warning = text(); !warning.empty()) log::warning(warning);
  } catch (const std::bad_alloc&) {
    return;
  }
}

} // namespace farcall::files
