// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <farcall/files/io_socket.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic(const struct farcall_io_table*) attached;

static _Thread_local int is_inside __attribute__((tls_model("initial-exec")));

any_function find_next(_Atomic(any_function)* kept, const char* name) {
  any_function found = atomic_load_explicit(kept, memory_order_relaxed);
  if (__builtin_expect(found != NULL, 1)) return found;
  /* Copy the bytes of the pointer. C has no conversion from a pointer to an object into a
   * pointer to a function, but POSIX guarantees that both hold an address alike. */
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

/* Holds `is_same` in the process in which the library was attached, or that has noticed that it is
 * the child of a fork. The system wipes the page in a child, so that it holds `is_new` there. Calls
 * such as _Fork() and clone() run no handlers of pthread_atfork(). */
enum { is_new, is_resetting, is_same };
static _Atomic(int) no_page = is_same;
static _Atomic(int)* process = &no_page;

static void make_page(void) {
  enum { bytes = 4096 };
  _Atomic(int)* const page = system_memory(bytes);
  if (page == NULL) return;
  if (madvise((void*)page, bytes, MADV_WIPEONFORK) != 0) {
    (void)munmap((void*)page, bytes); /* older than Linux 4.14 */
    return;
  }
  atomic_store(page, is_same);
  process = page;
}

int is_child(void) { return attached == &through_target; }

/* Resets the library in the child of a fork. Locks may be held there by threads of the parent
 * that do not exist in the child. Other state needs no repair, because threads keep it
 * consistent at any time. */
static void after_fork(void) {
  is_inside = 0;
  descriptors_after_fork();
  folders_after_fork();
  streams_after_fork();
  spawn_after_fork();
  report_after_fork();
  client_after_fork();
  working_folder_after_fork();
  atomic_store(&attached, &through_target);
  atomic_store_explicit(process, is_same, memory_order_release);
}

/* Resets the library in a child that was made without its handlers. */
static void notice_fork(void) {
  int before = is_new;
  if (atomic_compare_exchange_strong(process, &before, is_resetting)) {
    after_fork();
  } else {
    while (atomic_load_explicit(process, memory_order_acquire) != is_same)
      (void)sched_yield();
  }
}

int is_forwarding(void) { return is_inside; }

static _Thread_local struct {
  const char* text;
  uint64_t folder;
} begun[2] __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned last_begun __attribute__((tls_model("initial-exec")));

void begins_at(const char* text, uint64_t folder) {
  for (int i = 0; i < 2; ++i) {
    if (begun[i].text == text) begun[i].text = NULL;
  }
  if (folder == 0) return;
  last_begun = !last_begun;
  begun[last_begun].folder = folder;
  begun[last_begun].text = text;
}

uint64_t folder_of(const char* text) {
  for (int i = 0; i < 2; ++i) {
    if (begun[i].text == text) return begun[i].folder;
  }
  return 0;
}

int64_t forward(const struct farcall_io_request* asked) {
  if (__builtin_expect(atomic_load_explicit(process, memory_order_acquire) != is_same, 0))
    notice_fork();
  struct farcall_io_request with_folders = *asked;
  if (asked->path.bytes > 0) {
    with_folders.file = folder_of(asked->path.at);
    if (asked->operation == farcall_io_op_rename || asked->operation == farcall_io_op_link)
      with_folders.offset = (int64_t)folder_of(asked->to.at);
  }
  const struct farcall_io_request* const request = &with_folders;
  int64_t result = -EIO;
  if (!is_inside) {
    hold_back();
    is_inside = 1;
    result = atomic_load_explicit(&attached, memory_order_acquire)->perform(request);
    is_inside = 0;
    let_through();
  }
  if (result >= 0) return result;
  errno = (int)-result;
  return -1;
}

static int attach(const struct farcall_io_table* table, const char* socket) {
  if (use_target(socket) != 0) return -1;
  if (atomic_load(&attached) == NULL) {
    make_page();
    pthread_atfork(NULL, NULL, after_fork);
  }
  atomic_store_explicit(&attached, table, memory_order_release);
  return 0;
}

extern EXPORT const uint32_t farcall_io_release;
const uint32_t farcall_io_release = THIS_RELEASE;

EXPORT int farcall_io_attach(const struct farcall_io_table* table, const char* socket);
int farcall_io_attach(const struct farcall_io_table* table, const char* socket) {
  if (table == NULL) {
    flush_streams();
    return 0;
  }
  if (table->version != FARCALL_IO_VERSION || table->operations != farcall_io_operations) return -1;
  /* This process now is a target itself, and uses the files of its own host. If another target has
   * started the process, give up the files of that target's host. */
  if (is_child()) {
    forget_descriptors();
    leave_working_folder();
  }
  return attach(table, socket);
}

/* Runs before main(). If a target has started this program, makes the library send its requests
 * to this target. */
__attribute__((constructor)) static void begin(void) {
  find_signal_functions();
  const char* const socket = getenv(FARCALL_IO_SOCKET);
  if (socket != NULL && attach(&through_target, socket) == 0) {
    adopt_descriptors();
    watch_programs();
  }
  begin_report();
}
