#include "io.h"

#include <farcall/files/io_socket.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic(const struct farcall_io_table*) attached;

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

int is_child(void) { return attached == &through_target; }

/* In the child of a fork: other threads may have held what they do not hold there. What they were
 * doing changes nothing that could be seen half done. */
static void after_fork(void) {
  is_inside = 0;
  descriptors_after_fork();
  folders_after_fork();
  streams_after_fork();
  report_after_fork();
  client_after_fork();
  working_folder_after_fork();
  atomic_store(&attached, &through_target);
}

const struct farcall_io_table* enter(void) {
  if (!is_inside) {
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

static int attach(const struct farcall_io_table* table, const char* socket) {
  if (use_target(socket) != 0) return -1;
  if (atomic_load(&attached) == NULL) pthread_atfork(NULL, NULL, after_fork);
  atomic_store_explicit(&attached, table, memory_order_release);
  return 0;
}

EXPORT int farcall_io_attach(const struct farcall_io_table* table, const char* socket);
int farcall_io_attach(const struct farcall_io_table* table, const char* socket) {
  if (table == NULL) {
    flush_streams();
    return 0;
  }
  if (table->version != FARCALL_IO_VERSION || table->bytes != sizeof *table) return -1;
  /* A target that another one has started: from now on, its own host's files. */
  if (is_child()) {
    forget_descriptors();
    leave_working_folder();
  }
  return attach(table, socket);
}

/* A program that a target has started. */
__attribute__((constructor)) static void begin(void) {
  const char* const socket = getenv(FARCALL_IO_SOCKET);
  if (socket != NULL && attach(&through_target, socket) == 0) adopt_descriptors();
  begin_report();
}
