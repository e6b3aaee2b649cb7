// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Libc's syscall(), by which some libraries make calls that older versions of libc lack (libuv's
 * statx). Calls for which this library has a function are made by this function, which passes
 * files of the target on to libc. Other calls are the system's. */

DECLARE_REAL(syscall);

#define FD(i) ((int)a[i])
#define AT(i) ((void*)a[i])
#define BYTES(i) ((size_t)a[i])

/* A row has the call, and the call of the function. */
/* clang-format off */
#define RAW_CALLS(row)                                                                             \
  row(SYS_read, read(FD(0), AT(1), BYTES(2)))                                                      \
  row(SYS_write, write(FD(0), AT(1), BYTES(2)))                                                    \
  row(SYS_pread64, pread(FD(0), AT(1), BYTES(2), a[3]))                                            \
  row(SYS_pwrite64, pwrite(FD(0), AT(1), BYTES(2), a[3]))                                          \
  row(SYS_lseek, lseek(FD(0), a[1], FD(2)))                                                        \
  row(SYS_close, close(FD(0)))                                                                     \
  row(SYS_close_range, close_range((unsigned)a[0], (unsigned)a[1], FD(2)))                         \
  row(SYS_dup, dup(FD(0)))                                                                         \
  row(SYS_dup3, dup3(FD(0), FD(1), FD(2)))                                                         \
  row(SYS_fcntl, fcntl(FD(0), FD(1), AT(2)))                                                       \
  row(SYS_openat, openat(FD(0), AT(1), FD(2), (mode_t)a[3]))                                       \
  row(SYS_statx, statx(FD(0), AT(1), FD(2), (unsigned)a[3], AT(4)))                                \
  row(SYS_newfstatat, fstatat(FD(0), AT(1), AT(2), FD(3)))                                         \
  row(SYS_faccessat2, faccessat(FD(0), AT(1), FD(2), FD(3)))                                       \
  row(SYS_getdents64, getdents64(FD(0), AT(1), BYTES(2)))                                          \
  row(SYS_renameat2, renameat2(FD(0), AT(1), FD(2), AT(3), (unsigned)a[4]))                        \
  row(SYS_copy_file_range,                                                                         \
      copy_file_range(FD(0), AT(1), FD(2), AT(3), BYTES(4), (unsigned)a[5]))
/* Only some architectures have these. */
#ifdef SYS_dup2
#define OLDER_CALLS(row) row(SYS_dup2, dup2(FD(0), FD(1)))
#else
#define OLDER_CALLS(row)
#endif
/* clang-format on */

EXPORT long syscall(long number, ...) {
  long a[6];
  va_list more;
  va_start(more, number);
  for (int i = 0; i < 6; ++i)
    a[i] = va_arg(more, long);
  va_end(more);
  if (atomic_load_explicit(&attached, memory_order_acquire) != NULL && !is_forwarding()) {
#define AS_CASE(call, by_function)                                                                 \
  case call:                                                                                       \
    return (long)by_function;
    switch (number) {
      RAW_CALLS(AS_CASE)
      OLDER_CALLS(AS_CASE)
    default:
      break;
    }
  }
  return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
