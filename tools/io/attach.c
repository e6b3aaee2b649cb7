#include "io.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

_Atomic(const struct farcall_io_table*) attached;

static _Atomic(int) forked;
static _Thread_local int is_inside __attribute__((tls_model("initial-exec")));

any_function find_next(_Atomic(any_function)* kept, const char* name) {
  any_function found = atomic_load_explicit(kept, memory_order_relaxed);
  if (__builtin_expect(found != NULL, 1)) return found;
  /* POSIX wants a function's address to fit a pointer to an object. */
  void* const address = dlsym(RTLD_NEXT, name);
  memcpy(&found, &address, sizeof found);
  if (found == NULL) {
    static const char text[] = "libfarcall-io.so: libc has no function of a name that is needed\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(127);
  }
  atomic_store_explicit(kept, found, memory_order_relaxed);
  return found;
}

static void note_fork(void) { atomic_store(&forked, 1); }

int is_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

const struct farcall_io_table* enter(void) {
  if (is_forked()) {
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_said)) {
      dprintf(
          STDERR_FILENO,
          "farcall[%d] warning: a child of a fork cannot use files of the host (EIO); open them "
          "in the target itself\n",
          (int)getpid());
    }
  } else if (!is_inside) {
    is_inside = 1;
    return atomic_load_explicit(&attached, memory_order_acquire);
  }
  errno = EIO;
  return NULL;
}

void leave(void) { is_inside = 0; }

int64_t as_libc(int64_t result) {
  if (result >= 0) return result;
  errno = (int)-result;
  return -1;
}

EXPORT int farcall_io_attach(const struct farcall_io_table* table);
int farcall_io_attach(const struct farcall_io_table* table) {
  if (table == NULL) {
    flush_streams();
    return 0;
  }
  if (table->version != FARCALL_IO_VERSION || table->bytes != sizeof *table) return -1;
  if (atomic_load(&attached) == NULL) pthread_atfork(NULL, NULL, note_fork);
  atomic_store_explicit(&attached, table, memory_order_release);
  return 0;
}
