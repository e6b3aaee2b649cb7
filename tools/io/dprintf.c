// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* dprintf() and other functions that print to a descriptor. Libc formats and writes in one call, by
 * a hidden write() that would reach the placeholder of a host's file. For a file of the host, the
 * text is formatted first, and then written like other bytes. */

DECLARE_REAL(vdprintf);
DECLARE_REAL(__vdprintf_chk);
DECLARE_REAL(__vasprintf_chk);

/* Functions for _FORTIFY_SOURCE. <stdio.h> declares them only if this is defined. */
int __vasprintf_chk(char** restrict to, int flag, const char* restrict format, va_list arguments);
EXPORT int __vdprintf_chk(int fd, int flag, const char* restrict format, va_list arguments);
EXPORT int __dprintf_chk(int fd, int flag, const char* restrict format, ...);

/* Writes all bytes. Returns their number, or -1 with errno. */
static int write_all(int fd, const char* text, int bytes) {
  for (int done = 0; done < bytes;) {
    const ssize_t n = write(fd, text + done, (size_t)(bytes - done));
    if (n < 0) return -1;
    done += (int)n;
  }
  return bytes;
}

/* `flag` is an argument of the functions for _FORTIFY_SOURCE, and -1 for the other functions. */
static int print(int fd, int flag, const char* format, va_list arguments) {
  if (!is_hosts_descriptor(fd)) {
    return flag < 0 ? REAL(vdprintf)(fd, format, arguments)
                    : REAL(__vdprintf_chk)(fd, flag, format, arguments);
  }
  char* text = NULL;
  const int bytes = flag < 0 ? vasprintf(&text, format, arguments)
                             : REAL(__vasprintf_chk)(&text, flag, format, arguments);
  if (bytes < 0) return -1;
  const int result = write_all(fd, text, bytes);
  const int why = errno;
  free(text);
  errno = why;
  return result;
}

EXPORT int vdprintf(int fd, const char* restrict format, va_list arguments) {
  return print(fd, -1, format, arguments);
}
int __vdprintf_chk(int fd, int flag, const char* restrict format, va_list arguments) {
  return print(fd, flag, format, arguments);
}

#define DEFINE_PRINT(name, parameters, flag)                                                       \
  EXPORT int name parameters {                                                                     \
    va_list arguments;                                                                             \
    va_start(arguments, format);                                                                   \
    const int result = print(fd, flag, format, arguments);                                         \
    va_end(arguments);                                                                             \
    return result;                                                                                 \
  }
DEFINE_PRINT(dprintf, (int fd, const char* restrict format, ...), -1)
DEFINE_PRINT(__dprintf_chk, (int fd, int flag, const char* restrict format, ...), flag)

DECLARE_REAL(backtrace_symbols_fd);

EXPORT void backtrace_symbols_fd(void* const* places, int count, int fd) {
  if (!is_hosts_descriptor(fd)) {
    REAL(backtrace_symbols_fd)(places, count, fd);
    return;
  }
  char** const lines = backtrace_symbols(places, count);
  for (int i = 0; lines != NULL && i < count; ++i) {
    if (write_all(fd, lines[i], (int)strlen(lines[i])) < 0 || write_all(fd, "\n", 1) < 0) break;
  }
  free(lines);
}
EXPORT void __backtrace_symbols_fd(void* const* places, int count, int fd);
void __backtrace_symbols_fd(void* const* places, int count, int fd) {
  backtrace_symbols_fd(places, count, fd);
}
