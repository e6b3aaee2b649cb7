// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/access_check.hpp>
#include <farcall/memory/copy.hpp>
#include <farcall/memory/copy_choice.hpp>
#include <farcall/memory/copy_kernels.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Returns the choice that all large copies share. It is never destroyed, because copies are still
/// made while the process exits.
copy_choice& choice_of_process() noexcept {
  alignas(copy_choice) static std::byte memory[sizeof(copy_choice)];
  static auto* const made = new (memory) copy_choice(copy_kernels());
  return *made;
}

} // namespace

const copy_choice& large_copies() noexcept { return choice_of_process(); }

void copy_large(void* to, const void* from, std::size_t bytes) noexcept {
  copy_choice& choice = choice_of_process();
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t done = 0; done < bytes; done += copy_chunk_bytes)
    choice.copy(target + done, source + done, std::min(copy_chunk_bytes, bytes - done));
}

bool is_mapped(const void* address, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (bytes > UINTPTR_MAX - first) return false;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t start = first / page * page;
  // Test the pages by msync(), which fails if some are not mapped, and has no effect on mapped
  // pages.
  return bytes == 0 ||
         ::msync(reinterpret_cast<void*>(start), first - start + bytes, MS_ASYNC) == 0;
}

bool copy_if_mapped(void* to, const void* from, std::size_t bytes) noexcept {
  auto* here = static_cast<std::byte*>(to);
  const auto* there = static_cast<const std::byte*>(from);
  while (bytes != 0) {
    // Let the system copy the bytes, because its call checks both addresses and fails without a
    // fault. The call needs no permission here, because this process reads its own memory.
    const iovec local{here, bytes};
    const iovec remote{const_cast<std::byte*>(there), bytes};
    const ssize_t moved = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
    if (moved < 0 && errno != EFAULT) {
      // The system refuses the call altogether, for instance because of a seccomp filter or an
      // emulator. Check the memory and copy it here instead.
      access_check check;
      if (!check.can_read(there, bytes) || !check.can_write(here, bytes)) return false;
      copy_bytes(here, there, bytes);
      return true;
    }
    if (moved <= 0) return false;
    here += moved;
    there += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

} // namespace farcall
