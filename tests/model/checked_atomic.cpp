// SPDX-License-Identifier: Apache-2.0
#include <tests/model/checked_atomic.hpp>

#include <cerrno>
#include <cstdarg>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>

namespace farcall::check {
namespace {

unsigned private_barriers = 0;

long membarrier(std::source_location where, int command) noexcept {
  if (command == MEMBARRIER_CMD_PRIVATE_EXPEDITED) ++private_barriers;
  switch (command) {
  case MEMBARRIER_CMD_QUERY:
    return MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_PRIVATE_EXPEDITED;
  case MEMBARRIER_CMD_GLOBAL_EXPEDITED:
  case MEMBARRIER_CMD_PRIVATE_EXPEDITED:
    if (is_exploring()) barrier({where, operation::barrier, std::memory_order_seq_cst});
    return 0;
  default:
    return 0;
  }
}

} // namespace

unsigned private_barriers_passed() noexcept { return private_barriers; }

// NOLINTNEXTLINE(cert-dcl50-cpp): as syscall()
long system_call(std::source_location where, long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long status = 0;
  if (number == SYS_membarrier) {
    status = membarrier(where, va_arg(rest, int));
  } else if (number == SYS_futex && is_exploring()) {
    const auto* word = static_cast<std::uint32_t*>(va_arg(rest, void*));
    const int what = va_arg(rest, int);
    if (what == FUTEX_WAIT) {
      const auto expected = va_arg(rest, std::uint32_t);
      sleep(word, *word, expected, {where, operation::sleep, std::memory_order_relaxed});
    } else {
      wake(word, {where, operation::wake, std::memory_order_relaxed});
    }
  }
#ifdef SYS_futex_waitv
  if (number == SYS_futex_waitv) {
    // The call is missing, like before Linux 5.16.
    errno = ENOSYS;
    status = -1;
  }
#endif
  va_end(rest);
  return status;
}

} // namespace farcall::check
