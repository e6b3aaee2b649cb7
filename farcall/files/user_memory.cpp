// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/user_memory.hpp>
#include <farcall/memory/access_check.hpp>
#include <farcall/memory/copy.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <type_traits>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Size of a signal set. An address is checked by a system call that makes the kernel read or write
/// a signal set there. This is the cheapest check: it takes a seventh of the time of
/// process_vm_readv().
constexpr std::size_t looked_at = 8;

/// Maximum size of memory for which each page is checked.
constexpr std::size_t max_looked_through = std::size_t{64} << 10;

bool can_read(const std::byte* at) noexcept {
  // An operation that the system call does not have. The call fails in any case, but the kernel
  // reads the signal set first, and fails with EFAULT if it cannot be read.
  constexpr int no_operation = 77;
  // Check for null here, because the system call takes a null pointer for "no signal set".
  return at != nullptr &&
         (::syscall(SYS_rt_sigprocmask, no_operation, at, nullptr, looked_at) == 0 ||
          errno != EFAULT);
}

/// True if the address can be written to. The check itself overwrites the bytes at the address.
bool can_write(std::byte* at) noexcept {
  return ::syscall(SYS_rt_sigpending, at, looked_at) == 0 || errno != EFAULT;
}

/// Like can_write(), but puts the bytes that are at the address there again. Costs more.
bool can_write_again(std::byte* at) noexcept {
  std::byte there[looked_at];
  return copy_if_mapped(there, at, looked_at) && copy_if_mapped(at, there, looked_at);
}

/// Checks memory of more than max_looked_through bytes by the system's list of mappings. If the
/// system cannot be asked, only checks that the last bytes have the permission, and that all pages
/// are mapped.
template <class Byte, class Look>
bool is_long_usable(Byte* first, std::size_t bytes, const Look& look) noexcept {
  access_check check;
  switch (check.ask_list(reinterpret_cast<std::uintptr_t>(first), bytes, !std::is_const_v<Byte>)) {
  case access_check::reply::yes:
    return true;
  case access_check::reply::no:
    return false;
  default:
    return look(first + bytes - looked_at) && is_mapped(first, bytes);
  }
}

/// True if the system has made all pages of the memory present, for writing or for reading. False
/// if it cannot, although the memory may be usable: of devices, or before Linux 5.14.
bool can_populate(std::uintptr_t begin, std::uintptr_t end, bool writes) noexcept {
  // Values that older headers lack.
  constexpr int populate_read = 22;
  constexpr int populate_write = 23;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the system takes whole pages
  return ::madvise(reinterpret_cast<void*>(begin), end - begin,
                   writes ? populate_write : populate_read) == 0;
}

/// Checks each page of the memory, or calls is_long_usable() if the memory is long.
template <class Byte, class Look>
bool is_usable(Byte* first, std::size_t bytes, const Look& look) noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  // For three pages and more, one call takes less time than a look at each page.
  const std::uintptr_t first_page = begin / page * page;
  const std::uintptr_t behind = (begin + bytes + page - 1) / page * page;
  if (behind - first_page > 2 * page && bytes <= max_looked_through &&
      can_populate(first_page, behind, !std::is_const_v<Byte>))
    return true;
  if (!look(first)) return false;
  if (bytes > max_looked_through) return is_long_usable(first, bytes, look);
  Byte* const last = first + bytes - looked_at;
  for (std::uintptr_t at = (begin / page + 1) * page; at < begin + bytes; at += page) {
    if (!look(std::min(first + (at - begin), last))) return false;
  }
  return true;
}

bool is_in_range(const void* at, std::size_t bytes) noexcept {
  return bytes <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(at);
}

} // namespace

bool is_readable(const void* from, std::size_t bytes) noexcept {
  const auto* const first = static_cast<const std::byte*>(from);
  std::byte seen[looked_at];
  if (bytes < looked_at) return copy_if_mapped(seen, from, bytes);
  return is_in_range(from, bytes) && is_usable(first, bytes, can_read);
}

bool is_writable(void* to, std::size_t bytes) noexcept {
  auto* const first = static_cast<std::byte*>(to);
  std::byte there[looked_at];
  if (bytes < looked_at)
    return copy_if_mapped(there, to, bytes) && copy_if_mapped(to, there, bytes);
  return is_in_range(to, bytes) && is_usable(first, bytes, can_write_again);
}

bool copy_to_user(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes < looked_at) return copy_if_mapped(to, from, bytes);
  if (!is_in_range(to, bytes) || !is_usable(static_cast<std::byte*>(to), bytes, can_write))
    return false;
  copy_bytes(to, from, bytes);
  return true;
}

bool copy_from_user(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes < looked_at) return copy_if_mapped(to, from, bytes);
  if (!is_readable(from, bytes)) return false;
  copy_bytes(to, from, bytes);
  return true;
}

} // namespace farcall::files
