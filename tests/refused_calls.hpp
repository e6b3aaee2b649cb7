// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace farcall::test {

/// Lets the kernel refuse system call `number` to the calling thread, and to threads and processes
/// that it starts. With the reason ENOSYS the kernel seems older; with EPERM there seems to be a
/// seccomp filter that is older than the kernel.
inline void refuse_system_call(long number, int reason = ENOSYS) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(reason)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    throw std::system_error(errno, std::generic_category(), "refusing a system call");
  }
}

/// Refuses futex_waitv(), which Linux has since 5.16.
inline void refuse_futex_waitv() {
#ifdef SYS_futex_waitv
  refuse_system_call(SYS_futex_waitv);
#endif
}

} // namespace farcall::test
