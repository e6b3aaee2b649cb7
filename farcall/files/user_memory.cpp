#include <farcall/files/user_memory.hpp>
#include <farcall/memory/access_check.hpp>
#include <farcall/memory/copy.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <type_traits>

#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Bytes that the kernel reads or writes of a set of signals: the cheapest way to have it look at
/// an address, a seventh of what process_vm_readv() takes.
constexpr std::size_t looked_at = 8;

/// Of so many bytes each page is looked at.
constexpr std::size_t longest_looked_through = std::size_t{64} << 10;

bool can_read(const std::byte* at) noexcept {
  // It reads the set before it finds that there is no such operation.
  constexpr int no_operation = 77;
  return at != nullptr && // which is no set at all
         (::syscall(SYS_rt_sigprocmask, no_operation, at, nullptr, looked_at) == 0 ||
          errno != EFAULT);
}

/// Leaves something there.
bool can_write(std::byte* at) noexcept {
  return ::syscall(SYS_rt_sigpending, at, looked_at) == 0 || errno != EFAULT;
}

/// As the system's list of mappings says; where that does not tell, whether there is something all
/// along, and the end is looked at.
template <class Byte, class Look>
bool is_long_usable(Byte* first, std::size_t bytes, const Look& look) noexcept {
  access_check check;
  switch (check.ask_list(reinterpret_cast<std::uintptr_t>(first), bytes, !std::is_const_v<Byte>)) {
  case access_check::answer::yes:
    return true;
  case access_check::answer::no:
    return false;
  default:
    return look(first + bytes - looked_at) && is_mapped(first, bytes);
  }
}

/// What is short is looked at in each page.
template <class Byte, class Look>
bool is_usable(Byte* first, std::size_t bytes, const Look& look) noexcept {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  if (!look(first)) return false;
  if (bytes > longest_looked_through) return is_long_usable(first, bytes, look);
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
