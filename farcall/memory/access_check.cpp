// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/memory_file.hpp>
#include <farcall/memory/access_check.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Copy of struct procmap_query of Linux 6.11, which older headers lack.
struct mapping_query {
  std::uint64_t size = sizeof(mapping_query);
  std::uint64_t query_flags = 0;
  std::uint64_t query_addr = 0;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::uint64_t flags = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t file_system_major = 0;
  std::uint32_t file_system_minor = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t build_id_bytes = 0;
  std::uint64_t name = 0;
  std::uint64_t build_id = 0;
};
static_assert(sizeof(mapping_query) == 104);
constexpr std::uint64_t readable_flag = 1;
constexpr std::uint64_t writable_flag = 2;

/// Returns a descriptor of /proc/self/maps, which is opened once; -1 if it cannot be opened. The
/// file describes the process that opened it, so the child of a fork opens it again.
int list_of_mappings() noexcept {
  constexpr auto join = [](pid_t pid, int fd) {
    return std::uint64_t{static_cast<std::uint32_t>(pid)} << 32 | static_cast<std::uint32_t>(fd);
  };
  static std::atomic<std::uint64_t> opened{0};
  const pid_t self = ::getpid();
  // Relaxed, because threads share only the number, and no other memory.
  std::uint64_t now = opened.load(std::memory_order_relaxed);
  if (now >> 32 == static_cast<std::uint32_t>(self)) return static_cast<int>(now & UINT32_MAX);
  const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (opened.compare_exchange_strong(now, join(self, fd), std::memory_order_relaxed)) return fd;
  // Another thread has stored its descriptor first, so close this one and use the stored one.
  if (fd >= 0) ::close(fd);
  return static_cast<int>(now & UINT32_MAX);
}

} // namespace

access_check::~access_check() {
  if (scratch_ >= 0) ::close(scratch_);
}

bool access_check::can_read(const void* at, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  const reply a = ask_list(first, bytes, false);
  return a == reply::unknown ? try_pages(first, bytes, false) : a == reply::yes;
}

bool access_check::can_write(void* at, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  const reply a = ask_list(first, bytes, true);
  return a == reply::unknown ? try_pages(first, bytes, true) : a == reply::yes;
}

access_check::reply access_check::ask_list(std::uintptr_t at, std::size_t bytes,
                                           bool for_writing) noexcept {
  if (bytes > UINTPTR_MAX - at) return reply::no;
  const std::uintptr_t end = at + bytes;
  while (at < end) {
    if (at < known_.first || at >= known_.end) {
      mapping_query q;
      q.query_addr = at;
      const int list = list_of_mappings();
      if (list < 0) return reply::unknown;
      if (::ioctl(list, _IOWR('f', 17, mapping_query), &q) != 0)
        return errno == ENOENT ? reply::no : reply::unknown;
      // Accept mappings of huge pages from the pool, although such a mapping belongs to a file. The
      // pool reserves the pages at the time of the mapping, so that none of them can be missing.
      const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
      if (q.inode != 0 && q.page_bytes <= page) return reply::unknown;
      known_ = {q.first, q.end, (q.flags & readable_flag) != 0, (q.flags & writable_flag) != 0};
      if (at < known_.first || at >= known_.end) return reply::unknown;
    }
    if (for_writing ? !known_.is_writable : !known_.is_readable) return reply::no;
    at = known_.end;
  }
  return reply::yes;
}

bool access_check::try_pages(std::uintptr_t at, std::size_t bytes, bool for_writing) noexcept {
  if (bytes > UINTPTR_MAX - at) return false;
  if (scratch_ < 0) scratch_ = make_memory_file("farcall-scratch", MFD_CLOEXEC);
  if (scratch_ < 0) return false;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::array<iovec, 64> parts;
  for (const std::uintptr_t end = at + bytes; at < end;) {
    std::size_t count = 0;
    for (; count < parts.size() && at < end; at = std::min(end, at / page * page + page))
      parts[count++] = {reinterpret_cast<void*>(at), 1};
    const auto all = static_cast<ssize_t>(count);
    const auto segments = static_cast<int>(count);
    if (::pwritev(scratch_, parts.data(), segments, 0) != all) return false;
    if (for_writing && ::preadv(scratch_, parts.data(), segments, 0) != all) return false;
  }
  return true;
}

} // namespace farcall
