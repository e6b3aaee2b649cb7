// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Checks of memory that a program passes to a call, and memory of the library's own. System calls
 * make both, because calls may run in signal handlers, where malloc() may not be called. */

/* Minimum size of a page. */
enum { page = 4096, signal_set = 8 };

/* True if the 8 bytes around an address can be read. The system call has no operation 77, but
 * reads its signal set first, and fails with EFAULT if it cannot be read. */
static int can_read(const char* at) {
  const uintptr_t begin = (uintptr_t)at & ~(uintptr_t)(signal_set - 1);
  const int why = errno;
  const int is_readable =
      begin != 0 &&
      (syscall(SYS_rt_sigprocmask, 77, begin, NULL, signal_set) == 0 || errno != EFAULT);
  errno = why;
  return is_readable;
}

size_t text_length(const char* text) {
  if (!can_read(text)) return 0;
  for (size_t bytes = 0;;) {
    /* Look for the end within the page, and check the next page if it is not there. */
    const size_t left = page - ((uintptr_t)(text + bytes) & (page - 1));
    const size_t more = strnlen(text + bytes, left);
    bytes += more;
    if (more < left) return bytes;
    if (bytes > max_path) return bytes;
    if (!can_read(text + bytes)) return 0;
  }
}

int is_text(const char* text) {
  if (text != NULL && (text_length(text) > 0 || (can_read(text) && text[0] == '\0'))) return 1;
  errno = EFAULT;
  return 0;
}

int is_readable(const void* from, size_t bytes) {
  const char* const first = from;
  int is = first != NULL && can_read(first) && can_read(first + bytes - 1);
  for (size_t at = page; at < bytes && is; at += page)
    is = can_read(first + at);
  if (!is) errno = EFAULT;
  return is;
}

/* Overwrites up to 8 bytes at the address. Returns 0 if this is not possible. */
static int overwrite(char* at, size_t bytes) {
  return syscall(SYS_rt_sigpending, at, bytes < signal_set ? bytes : signal_set) == 0 ||
         errno != EFAULT;
}

int is_space(void* to, size_t bytes) {
  const int why = errno;
  char* const first = to;
  char* const last = first + (bytes < signal_set ? 0 : bytes - signal_set);
  int is_usable = first != NULL && overwrite(first, bytes) && overwrite(last, bytes);
  for (size_t at = page; at < bytes && is_usable; at += page)
    is_usable = overwrite(first + at < last ? first + at : last, bytes);
  errno = is_usable ? why : EFAULT;
  return is_usable;
}

/* ---- memory of the library's own ---- */

void* system_memory(size_t bytes) {
  const long made =
      syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return made == -1 ? NULL : (void*)made;
}

char* copy_text(const char* text) {
  char* const copy = system_memory(strlen(text) + 1);
  return copy != NULL ? strcpy(copy, text) : NULL;
}

void drop_text(char* text) {
  if (text != NULL) (void)munmap(text, strlen(text) + 1);
}

char* reserve(struct space* s, size_t bytes) {
  if (bytes <= sizeof s->here) return s->here;
  leave_space(s);
  s->longer = system_memory(bytes);
  s->bytes = bytes;
  return s->longer;
}

void leave_space(struct space* s) {
  const int why = errno;
  if (s->longer != NULL) (void)munmap(s->longer, s->bytes);
  s->longer = NULL;
  errno = why;
}

/* A buffer that the last call has returned. */
static _Atomic(char*) spare_buffer;

char* take_buffer(void) {
  char* const spare = atomic_exchange(&spare_buffer, NULL);
  return spare != NULL ? spare : system_memory(buffer_bytes);
}

void return_buffer(char* buffer) {
  char* none = NULL;
  const int why = errno;
  if (buffer != NULL && !atomic_compare_exchange_strong(&spare_buffer, &none, buffer))
    (void)munmap(buffer, buffer_bytes);
  errno = why;
}

/* ---- signals ---- */

/* Number of hold_back() calls of this thread that let_through() has not ended, and the state before
 * the first of them. */
static _Thread_local int depth __attribute__((tls_model("initial-exec")));
static _Thread_local sigset_t signals __attribute__((tls_model("initial-exec")));
static _Thread_local int cancels __attribute__((tls_model("initial-exec")));

static _Thread_local int is_masked __attribute__((tls_model("initial-exec")));

/* Signals that are held back. Set before has_handlers. */
static sigset_t held;

void choose_signals(void) {
  sigset_t all;
  sigfillset(&all);
  /* Do not hold back the signals of faults, because the kernel would end the process. */
  for (int number = 1; number < NSIG; ++number) {
    if (is_of_fault(number)) sigdelset(&all, number);
  }
  held = all;
}

void hold_back(void) {
  if (depth == 0) {
    if (!atomic_load_explicit(&has_handlers, memory_order_acquire)) {
      (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
      is_masked = 0;
      depth = 1;
      return;
    }
    sigset_t before;
    /* Change the variables after the system call. Until then handlers run, which may call this
     * function, and may never return. */
    (void)pthread_sigmask(SIG_SETMASK, &held, &before);
    signals = before;
    is_masked = 1;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
  }
  ++depth;
}

void let_through(void) {
  if (--depth != 0) return;
  if (!is_masked) {
    (void)pthread_setcancelstate(cancels, NULL);
    return;
  }
  const sigset_t before = signals;
  (void)pthread_setcancelstate(cancels, NULL);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void lock(pthread_mutex_t* mutex) {
  hold_back();
  pthread_mutex_lock(mutex);
}

void unlock(pthread_mutex_t* mutex) {
  pthread_mutex_unlock(mutex);
  let_through();
}
