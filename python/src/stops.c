// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Stops of calls in a worker. A handler of farcall, which runs without Python, receives the number
// of the call. If the call has not begun, it will not run. If it runs, it gets an exception:
//
// * In the main thread, by a signal, because a signal also ends system calls such as sleeps. The
//   handler of the signal runs in the main thread with the GIL, and raises the exception. A signal
//   that comes shortly before a system call does not end it, so the signal is sent again until the
//   handler has run.
// * In other threads, by a thread without Python code, which needs the GIL only for this. The main
//   thread cannot do it, because it runs no handlers of Python while it waits for calls.

enum { most_running = 256, list_count = 256, most_in_list = 256 };

/// A call that runs.
typedef struct running {
  _Atomic uint64_t call;   ///< 0 if the entry is free
  _Atomic uint64_t wanted; ///< number of a call that shall be stopped, or 0
  _Atomic uint64_t told;   ///< number of the call that has got the exception of the last request
  uint32_t caller;
  _Atomic unsigned held; ///< number of calls of hold_stops() without allow_stops()
  unsigned long thread;  ///< number of the Python thread; 0 for the main thread
} running;

static running calls[most_running];
static _Atomic unsigned used;               ///< entries after this number are free
static _Thread_local running* call_of_this; ///< call that the thread runs, or NULL

/// A call that shall not begin.
typedef struct stopped_call {
  uint64_t call;
  uint32_t caller;
} stopped_call;

/// Calls that were stopped before they began. Calls whose numbers are equal modulo `list_count`
/// share a list. A call that has ended before the request came stays in its list. If a list is
/// full, an entry is overwritten.
static struct stopped_list {
  stopped_call* all;
  unsigned count;
  unsigned capacity;
  unsigned overwritten; ///< number of entries that were overwritten
} lists[list_count];
static _Atomic unsigned stopped_count; ///< in all lists
static pthread_mutex_t stopping = PTHREAD_MUTEX_INITIALIZER;

static atomic_bool can_raise; ///< true once set_stop() was called
static pthread_t main_thread;
static const int interrupt_signal = SIGURG;
static PyObject* stop_type; ///< exception that is raised in calls
static sem_t asked;         ///< number of stops of calls that run
static pthread_once_t repeating = PTHREAD_ONCE_INIT;
/// Time between two signals for a call. It doubles up to the longer one.
static const int64_t first_repeat_ns = 2000000;
static const int64_t longest_repeat_ns = 250000000;

static const char stop_name[] = "farcall.python.stop";

static void start_repeating(void);

static struct stopped_list* list_of(uint64_t call) { return &lists[call % list_count]; }

/// Adds a call to its list. Call it with the mutex.
static void add_stopped(uint64_t call, uint32_t caller) {
  struct stopped_list* const to = list_of(call);
  if (to->count == to->capacity && to->capacity < most_in_list) {
    const unsigned capacity = to->capacity == 0 ? 4 : 2 * to->capacity;
    stopped_call* const grown = realloc(to->all, capacity * sizeof *grown);
    if (grown == NULL && to->capacity == 0) return;
    if (grown != NULL) {
      to->all = grown;
      to->capacity = capacity;
    }
  }
  const bool is_full = to->count == to->capacity;
  to->all[is_full ? to->overwritten++ % to->capacity : to->count] = (stopped_call){call, caller};
  if (is_full) return;
  ++to->count;
  ++stopped_count;
}

/// Takes a call out of its list. Returns false if it was not there. Call it with the mutex.
static bool remove_stopped(uint64_t call, uint32_t caller) {
  struct stopped_list* const from = list_of(call);
  for (unsigned i = 0; i < from->count; ++i) {
    if (from->all[i].call != call || from->all[i].caller != caller) continue;
    from->all[i] = from->all[--from->count];
    --stopped_count;
    return true;
  }
  return false;
}

/// True if the call shall not begin. The call is not in the list any more.
static bool take_stopped(uint64_t call, uint32_t caller) {
  pthread_mutex_lock(&stopping);
  const bool found = remove_stopped(call, caller);
  pthread_mutex_unlock(&stopping);
  return found;
}

void fcp_forget_stop(const fc_taken* call, uint64_t number) {
  if (number != 0 && stopped_count != 0) take_stopped(number, fc_reply_caller(call->reply));
}

static void stop(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  uint64_t call = 0;
  if (size != sizeof call) return;
  memcpy(&call, bytes, size);
  const uint32_t caller = fc_reply_caller(reply);
  bool runs = false;
  pthread_mutex_lock(&stopping);
  // fcp_begin_run() stores the call, and then reads the number of stopped calls. So one of the two
  // sees the other.
  add_stopped(call, caller);
  for (unsigned i = 0; i < used; ++i) {
    if (calls[i].call != call || calls[i].caller != caller) continue;
    calls[i].told = 0;
    calls[i].wanted = call;
    runs = true;
    if (can_raise && calls[i].thread == 0) pthread_kill(main_thread, interrupt_signal);
  }
  if (runs) remove_stopped(call, caller);
  pthread_mutex_unlock(&stopping);
  if (!runs || !can_raise) return;
  pthread_once(&repeating, &start_repeating);
  sem_post(&asked);
}

fc_status fcp_register_stops(void) { return fc_register(stop_name, &stop, NULL); }

fc_status fcp_ask_to_stop(fc_node node, uint64_t call) {
  static fc_function number;
  if (number == 0) number = fc_named(stop_name);
  return fcp_tell(node, number, &call, sizeof call);
}

fc_status fcp_tell(fc_node node, fc_function function, const void* bytes, size_t size) {
  const fc_bytes part = {bytes, size};
  fc_future* future = NULL;
  const fc_status status = fc_try_call_async(node, function, &part, 1, &future);
  if (status == FC_OK) fc_future_drop(future);
  return status;
}

// A worker that ends has often not begun all calls that it has got. To tell its host, the worker
// stores the numbers of the host's calls that it begins, in memory that the host reads, too. Each
// number stays there until the next call takes its place: then the worker has sent the reply.

enum { most_noted = 64 };

/// Calls of the host that a worker has begun.
typedef struct notes {
  _Atomic uint64_t overflow;          ///< highest number of a call that is not in `begun`
  _Atomic uint64_t begun[most_noted]; ///< the last calls of the entries of `calls`
} notes;

static _Atomic(notes*) noted;

static const int64_t track_ns = 1000000000; ///< time that a worker has for fcp_track()
static const char notes_name[] = "farcall.python.notes";

/// True if the host has allocated memory for notes at this address of this process.
static bool is_for_notes(uint64_t address) {
  fc_job* const job = fc_current_job();
  fc_node self;
  void* here = NULL;
  if (address % sizeof(uint64_t) != 0 || fc_this_node(job, &self) != FC_OK) return false;
  const fc_span memory = {address, sizeof(notes), self.id, 0};
  return fc_map_hold(job, memory, &here) == FC_OK && fc_unmap(here) == FC_OK;
}

static void use_notes(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  uint64_t address = 0;
  if (size == sizeof address) memcpy(&address, bytes, size);
  if (size == sizeof address && fc_reply_caller(reply) == 0 && is_for_notes(address)) {
    noted = (notes*)(uintptr_t)address;
  } else {
    fc_reply_error(reply, "ValueError", "notes of calls need memory that the host has allocated");
  }
}

fc_status fcp_register_notes(void) { return fc_register(notes_name, &use_notes, NULL); }

static void note(unsigned entry, uint64_t call) {
  notes* const to = noted;
  if (to == NULL) return;
  if (entry < most_noted) {
    to->begun[entry] = call;
  } else if (call > to->overflow) {
    to->overflow = call;
  }
}

void* fcp_track(fc_job* job, fc_node node) {
  fc_span memory;
  void* here = NULL;
  node = fc_within(node, track_ns);
  if (fc_allocate(node, sizeof(notes), &memory) != FC_OK) return NULL;
  if (fc_map_hold(job, memory, &here) != FC_OK) return NULL;
  memset(here, 0, sizeof(notes));
  const fc_function function = fc_named(notes_name);
  if (fc_call(node, function, &memory.address, sizeof memory.address, NULL, 0, NULL) == FC_OK)
    return here;
  fc_unmap(here);
  return NULL;
}

bool fcp_may_have_begun(const void* memory, uint64_t call) {
  const notes* const from = memory;
  if (from == NULL || call <= from->overflow) return true;
  for (unsigned i = 0; i < most_noted; ++i) {
    if (from->begun[i] == call) return true;
  }
  return false;
}

/// True if the call of the entry shall get the exception.
static bool needs_exception(const running* entry) {
  const uint64_t call = entry->call;
  return call != 0 && entry->wanted == call && entry->told != call && entry->held == 0;
}

/// Raises the exception in threads other than the main thread whose calls shall be stopped. Needs
/// the GIL.
static void raise_in_threads(void) {
  for (unsigned i = 0; i < used; ++i) {
    running* const entry = &calls[i];
    if (entry->thread == 0 || !needs_exception(entry)) continue;
    entry->told = entry->call;
    PyThreadState_SetAsyncExc(entry->thread, stop_type);
  }
}

/// Lets calls get the exception that shall get it. Returns false if there is none. After a new
/// request, stop() has sent the signal already.
static bool raise_in_all(bool is_new) {
  bool is_in_main = false;
  bool is_in_others = false;
  for (unsigned i = 0; i < used; ++i) {
    if (needs_exception(&calls[i])) *(calls[i].thread == 0 ? &is_in_main : &is_in_others) = true;
  }
  if (is_in_main && !is_new) pthread_kill(main_thread, interrupt_signal);
  if (is_in_others) {
    const PyGILState_STATE state = PyGILState_Ensure();
    raise_in_threads();
    PyGILState_Release(state);
  }
  return is_in_main || is_in_others;
}

/// Waits for a request. Returns false if the time has passed.
static bool wait_for_request(int64_t timeout_ns) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  const int64_t ns = end.tv_nsec + timeout_ns;
  end.tv_sec += ns / 1000000000;
  end.tv_nsec = ns % 1000000000;
  for (;;) {
    if ((timeout_ns < 0 ? sem_wait(&asked) : sem_timedwait(&asked, &end)) == 0) return true;
    if (errno != EINTR) return false;
  }
}

static void* repeat_stops(void* unused) {
  int64_t pause_ns = -1;
  for (;;) {
    const bool is_new = wait_for_request(pause_ns);
    if (!raise_in_all(is_new)) {
      pause_ns = -1;
    } else if (is_new) {
      pause_ns = first_repeat_ns;
    } else {
      pause_ns = 2 * pause_ns < longest_repeat_ns ? 2 * pause_ns : longest_repeat_ns;
    }
  }
  return unused;
}

static void start_repeating(void) {
  sigset_t all;
  sigset_t before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, NULL, &repeat_stops, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/// set_stop(type): lets calls be stopped by an exception of this type.
PyObject* fcp_set_stop(PyObject* module, PyObject* type) {
  (void)module;
  main_thread = pthread_self();
  Py_INCREF(type);
  stop_type = type;
  sem_init(&asked, 0, 0);
  can_raise = true;
  return PyLong_FromLong(interrupt_signal);
}

fcp_run fcp_begin_run(const fc_taken* call, uint64_t number) {
  const uint32_t caller = fc_reply_caller(call->reply);
  unsigned i = 0;
  while (i < most_running && calls[i].call != 0)
    ++i;
  // Calls that are nested even deeper cannot be interrupted.
  if (number == 0 || i == most_running)
    return (fcp_run){-1, number != 0 && stopped_count != 0 && take_stopped(number, caller)};
  running* const entry = &calls[i];
  entry->caller = caller;
  const bool is_main = pthread_equal(pthread_self(), main_thread) != 0;
  entry->thread = is_main ? 0 : PyThread_get_thread_ident();
  atomic_store_explicit(&entry->wanted, 0, memory_order_relaxed);
  atomic_store_explicit(&entry->told, 0, memory_order_relaxed);
  atomic_store_explicit(&entry->held, 0, memory_order_relaxed);
  entry->call = number;
  if (caller == 0) note(i, number);
  if (i >= used) used = i + 1;
  call_of_this = entry;
  return (fcp_run){(int)i, stopped_count != 0 && take_stopped(number, caller)};
}

bool fcp_end_run(fcp_run run) {
  if (run.entry < 0) return false;
  running* const entry = &calls[run.entry];
  const bool was_wanted = entry->wanted == entry->call;
  const unsigned long thread = entry->thread;
  entry->call = 0;
  call_of_this = NULL;
  // An exception that the thread has not noticed yet must not reach its next call.
  if (was_wanted && thread != 0) PyThreadState_SetAsyncExc(thread, NULL);
  return was_wanted;
}

bool fcp_leave_run(fcp_run run) {
  // With the mutex, a request finds the call here, or is in the list when the call begins again.
  pthread_mutex_lock(&stopping);
  const bool was_wanted = fcp_end_run(run);
  pthread_mutex_unlock(&stopping);
  return was_wanted;
}

bool fcp_is_stop(void) { return stop_type != NULL && PyErr_ExceptionMatches(stop_type); }

PyObject* fcp_on_stop(PyObject* module, PyObject* arguments) {
  (void)module;
  (void)arguments;
  bool is_own = false;
  for (unsigned i = 0; i < used; ++i) {
    running* const entry = &calls[i];
    if (entry->thread != 0 || !needs_exception(entry)) continue;
    entry->told = entry->call;
    is_own = true;
  }
  if (!is_own) Py_RETURN_NONE;
  PyErr_SetNone(stop_type);
  return NULL;
}

/// Lets the call of this thread get the exception soon, if it shall get it.
static void ask_again(running* entry) {
  if (!needs_exception(entry)) return;
  if (entry->thread == 0) pthread_kill(main_thread, interrupt_signal);
  sem_post(&asked);
}

PyObject* fcp_hold_stops(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  if (call_of_this != NULL) ++call_of_this->held;
  Py_RETURN_NONE;
}

PyObject* fcp_allow_stops(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  running* const entry = call_of_this;
  // An exception may have been raised before hold_stops().
  if (entry != NULL && entry->held != 0) {
    --entry->held;
    ask_again(entry);
  }
  Py_RETURN_NONE;
}

PyObject* fcp_on_unraisable(PyObject* module, PyObject* unraisable) {
  (void)module;
  PyObject* const type = PyObject_GetAttrString(unraisable, "exc_type");
  if (type == NULL) return NULL;
  const bool is_stop = type == stop_type;
  Py_DECREF(type);
  if (is_stop && call_of_this != NULL) {
    call_of_this->told = 0;
    ask_again(call_of_this);
    Py_RETURN_NONE;
  }
  PyObject* const hook = PySys_GetObject("__unraisablehook__");
  if (hook == NULL) Py_RETURN_NONE;
  return PyObject_CallFunctionObjArgs(hook, unraisable, NULL);
}
