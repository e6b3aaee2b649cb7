// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* With FARCALL_IO_WATCH=1, the system reports to the target which files are named in system calls
 * of this program, and of programs that it starts. Calls that this library forwards make no such
 * system call. So a report of a path of the host means that a program makes the call itself, for
 * instance because it is static. Each reported call costs two context switches. */

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined __riscv && __riscv_xlen == 64
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#endif

#ifdef ARCHITECTURE

/* Calls that name a file. program_watch.cpp knows where their paths are. */
static const long watched[] = {
    SYS_openat,     SYS_newfstatat, SYS_statx,    SYS_faccessat, SYS_mkdirat,
    SYS_unlinkat,   SYS_readlinkat, SYS_truncate,
#ifdef SYS_openat2
    SYS_openat2,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#ifdef SYS_open
    SYS_open,       SYS_creat,      SYS_stat,     SYS_lstat,     SYS_access,
    SYS_mkdir,      SYS_unlink,     SYS_rmdir,    SYS_readlink,  SYS_rename,
#endif
};
enum { count = sizeof watched / sizeof watched[0] };

/* Sets the filter. Returns the descriptor of the reports, or -1. */
static int set_filter(void) {
  struct sock_filter code[2 * count + 4];
  unsigned short used = 0;
  code[used++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  code[used++] =
      (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 2 * count + 1);
  code[used++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count; ++i) {
    code[used++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)watched[i], 0, 1);
    code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  }
  code[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {used, code};
  const long made =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  /* An ordinary user must give up setuid programs for that. */
  if (made >= 0 || errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return (int)made;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                      &program);
}

void watch_programs(void) {
  const char* const wanted = getenv("FARCALL_IO_WATCH");
  if (wanted == NULL || strcmp(wanted, "1") != 0) return;
  /* Fails with EBUSY if the program that has started this one has a filter, which holds for this
   * one, too. */
  give_to_target(set_filter);
}

#else

void watch_programs(void) {}

#endif
