#include "io.h"

#include <inttypes.h>
#include <stdlib.h>
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

__attribute__((constructor)) static void begin(void) {
  const char* const wanted = getenv("FARCALL_IO_REPORT");
  reports = wanted != NULL && wanted[0] == '1';
}

/* At exit. What ends by _exit() or a signal says nothing. */
__attribute__((destructor)) static void print(void) {
  static const char* const names[] = {
#define AS_NAME(name) #name,
      FUNCTIONS(AS_NAME)
#undef AS_NAME
  };
  if (!reports || atomic_load(&attached) == NULL || is_forked()) return;
  dprintf(STDERR_FILENO,
          "farcall[%d] files of the host\n"
          "%-16s %12s %16s | went on to libc: %10s %12s %12s | %10s\n",
          (int)getpid(), "call", "forwarded", "bytes", "before job", "other path", "other file",
          "refused");
  for (int i = 0; i < counted_functions; ++i) {
    uint64_t passed[passed_reasons];
    uint64_t any = atomic_load(&counts[i].forwarded);
    for (int why = 0; why < passed_reasons; ++why)
      any |= passed[why] = atomic_load(&counts[i].passed[why]);
    if (any == 0) continue;
    dprintf(STDERR_FILENO,
            "%-16s %12" PRIu64 " %16" PRIu64 " | %27" PRIu64 " %12" PRIu64 " %12" PRIu64
            " | %10" PRIu64 "\n",
            names[i], atomic_load(&counts[i].forwarded), atomic_load(&counts[i].bytes),
            passed[before_job], passed[other_path], passed[other_file], passed[not_offered]);
  }
}
