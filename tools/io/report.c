// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int reports;

static struct {
  _Atomic(uint64_t) forwarded;
  _Atomic(uint64_t) bytes;
  _Atomic(uint64_t) passed[passed_reasons];
} counts[counted_functions];

void count_forwarded(enum counted what, int64_t bytes) {
  atomic_fetch_add_explicit(&counts[what].forwarded, 1, memory_order_relaxed);
  if (bytes > 0)
    atomic_fetch_add_explicit(&counts[what].bytes, (uint64_t)bytes, memory_order_relaxed);
}

void count_passed(enum counted what, enum passed why) {
  atomic_fetch_add_explicit(&counts[what].passed[why], 1, memory_order_relaxed);
}

/* A copy of the descriptor of standard error, which programs may close before they end. */
static int report_to = -1;

void begin_report(void) {
  const char* const wanted = getenv("FARCALL_IO_REPORT");
  reports = wanted != NULL && wanted[0] == '1';
  if (reports) report_to = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
}

void report_after_fork(void) { memset(counts, 0, sizeof counts); }

/* Prints a line by write(), which this library forwards if standard error is a file of the host.
 * dprintf() makes its system call inside libc, and could not write to such a file. */
__attribute__((format(printf, 1, 2))) static void say(const char* format, ...) {
  char line[256];
  va_list more;
  va_start(more, format);
  const int bytes = vsnprintf(line, sizeof line, format, more);
  va_end(more);
  if (bytes > 0) (void)!write(report_to, line, (size_t)bytes);
}

/* Returns the number of calls of a function that the report counts. A function without such calls
 * is not printed. */
static uint64_t calls_of(int function) {
  uint64_t all = atomic_load(&counts[function].forwarded);
  /* In programs that targets start, don't count calls that were not forwarded, because shells
   * and tools mostly use local files. */
  if (!is_child()) {
    for (int why = 0; why < passed_reasons; ++why)
      all += atomic_load(&counts[function].passed[why]);
  }
  return all;
}

/* Prints the report at exit. A process that ends by _exit() or by a signal prints no report. */
__attribute__((destructor)) static void print(void) {
  static const char* const names[] = {
#define AS_NAME(name) #name,
      FUNCTIONS(AS_NAME)
#undef AS_NAME
  };
  if (!reports || atomic_load(&attached) == NULL) return;
  int any = 0;
  for (int i = 0; i < counted_functions; ++i) {
    if (calls_of(i) == 0) continue;
    if (!any) {
      say("farcall[%d] %s: files of the host\n", (int)getpid(), program_invocation_short_name);
      say("%-16s %12s %16s | went on to libc: %10s %12s %12s | %10s\n", "call", "forwarded",
          "bytes", "before job", "other path", "other file", "refused");
    }
    any = 1;
    uint64_t passed[passed_reasons];
    for (int why = 0; why < passed_reasons; ++why)
      passed[why] = atomic_load(&counts[i].passed[why]);
    say("%-16s %12" PRIu64 " %16" PRIu64 " | %27" PRIu64 " %12" PRIu64 " %12" PRIu64 " | %10" PRIu64
        "\n",
        names[i], atomic_load(&counts[i].forwarded), atomic_load(&counts[i].bytes),
        passed[before_job], passed[other_path], passed[other_file], passed[not_offered]);
  }
}
