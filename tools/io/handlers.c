// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <signal.h>

/* The functions by which programs set signal handlers. Before the first handler is set, signals run
 * no code in the middle of a call: they end, stop or continue the process. So hold_back() need not
 * hold back signals then, which saves two system calls. Handlers of faults do not count, because
 * their signals are never held back. Two cases are not covered: a handler that the program sets by
 * a system call of its own, and a call that already runs on another thread while the program sets
 * its first handler. */

/* The header calls sigset() deprecated. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

_Atomic(int) has_handlers;

DECLARE_REAL(sigaction);
DECLARE_REAL(signal);
DECLARE_REAL(sigset);
DECLARE_REAL(sysv_signal);

int is_of_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
         number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

/* Sets has_handlers for a handler. Must be called before the handler is set, so that each call with
 * the handler sees it. */
static void note(int number, void (*handler)(int)) {
  if (handler == SIG_DFL || handler == SIG_IGN || handler == SIG_HOLD || is_of_fault(number))
    return;
  if (atomic_load_explicit(&has_handlers, memory_order_relaxed)) return;
  choose_signals();
  atomic_store(&has_handlers, 1);
}

void find_signal_functions(void) {
  (void)REAL(sigaction);
  (void)REAL(signal);
  (void)REAL(sigset);
  (void)REAL(sysv_signal);
}

EXPORT int sigaction(int number, const struct sigaction* restrict now,
                     struct sigaction* restrict before) {
  if (now != NULL) note(number, now->sa_handler);
  return REAL(sigaction)(number, now, before);
}
EXPORT int __sigaction(int number, const struct sigaction* now, struct sigaction* before);
int __sigaction(int number, const struct sigaction* now, struct sigaction* before) {
  return sigaction(number, now, before);
}

EXPORT sighandler_t signal(int number, sighandler_t handler) {
  note(number, handler);
  return REAL(signal)(number, handler);
}
EXPORT sighandler_t bsd_signal(int number, sighandler_t handler);
sighandler_t bsd_signal(int number, sighandler_t handler) { return signal(number, handler); }
ALSO(ssignal, signal);

EXPORT sighandler_t sysv_signal(int number, sighandler_t handler) {
  note(number, handler);
  return REAL(sysv_signal)(number, handler);
}
ALSO(__sysv_signal, sysv_signal);

EXPORT sighandler_t sigset(int number, sighandler_t handler) {
  note(number, handler);
  return REAL(sigset)(number, handler);
}
