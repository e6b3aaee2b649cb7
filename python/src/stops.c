// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

// Stops of calls in a worker. A handler of farcall, which runs without Python, receives the number
// of the call. If the call has not begun, it will not run. If it runs, the handler sends a signal
// to the main thread, because a signal also ends system calls such as sleeps. The handler of the
// signal runs in the main thread with the GIL, and raises an exception in the thread of the call.
// While the main thread waits for calls, it runs no handlers of Python, so that a thread of its own
// raises exceptions in other threads.

enum { most_running = 256, most_stopped = 256 };

/// A call that runs.
typedef struct running {
  _Atomic uint64_t call;   ///< 0 if the entry is free
  _Atomic uint64_t wanted; ///< number of a call that shall be stopped, or 0
  uint32_t caller;
  uint64_t told;        ///< number of the last call that got the exception
  unsigned long thread; ///< number of the Python thread; 0 for the main thread
} running;

static running calls[most_running];
static _Atomic unsigned used; ///< entries after this number are free

/// Calls that shall not begin. The oldest entries are overwritten.
static struct stopped {
  uint64_t call;
  uint32_t caller;
} stopped[most_stopped];
static _Atomic unsigned stopped_count;
static pthread_mutex_t stopping = PTHREAD_MUTEX_INITIALIZER;

static pthread_t main_thread;
static const int interrupt_signal = SIGURG;
static PyObject* stop_type; ///< exception that is raised in calls
static sem_t asked;         ///< number of stops for threads other than the main thread

static const char stop_name[] = "farcall.python.stop";

static void stop(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  uint64_t call = 0;
  if (size != sizeof call) return;
  memcpy(&call, bytes, size);
  const uint32_t caller = fc_reply_caller(reply);
  pthread_mutex_lock(&stopping);
  stopped[stopped_count % most_stopped] = (struct stopped){call, caller};
  // begin() stores the call, and then reads this number. So one of the two sees the other.
  ++stopped_count;
  for (unsigned i = 0; i < used; ++i) {
    if (calls[i].call != call || calls[i].caller != caller) continue;
    calls[i].wanted = call;
    pthread_kill(main_thread, interrupt_signal);
    if (calls[i].thread != 0) sem_post(&asked);
  }
  pthread_mutex_unlock(&stopping);
}

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

/// set_stop(type): lets calls be stopped by an exception of this type.
PyObject* fcp_set_stop(PyObject* module, PyObject* type) {
  (void)module;
  main_thread = pthread_self();
  Py_INCREF(type);
  stop_type = type;
  sem_init(&asked, 0, 0);
  const fc_status status = fc_register(stop_name, &stop, NULL);
  if (status != FC_OK) return fcp_raise(status);
  return PyLong_FromLong(interrupt_signal);
}

/// True if the call shall not begin.
static bool is_stopped(uint64_t call, uint32_t caller) {
  bool found = false;
  pthread_mutex_lock(&stopping);
  for (unsigned i = 0; i < most_stopped; ++i)
    found = found || (stopped[i].call == call && stopped[i].caller == caller);
  pthread_mutex_unlock(&stopping);
  return found;
}

fcp_run fcp_begin_run(const fc_taken* call, uint64_t number) {
  unsigned i = 0;
  while (i < most_running && calls[i].call != 0)
    ++i;
  // Calls that are nested even deeper cannot be interrupted.
  if (number == 0 || i == most_running) return (fcp_run){-1, false};
  running* const entry = &calls[i];
  entry->caller = fc_reply_caller(call->reply);
  const bool is_main = pthread_equal(pthread_self(), main_thread) != 0;
  entry->thread = is_main ? 0 : PyThread_get_thread_ident();
  entry->wanted = 0;
  entry->told = 0;
  entry->call = number;
  if (entry->caller == 0) note(i, number);
  if (i >= used) used = i + 1;
  return (fcp_run){(int)i, stopped_count != 0 && is_stopped(number, entry->caller)};
}

bool fcp_end_run(fcp_run run) {
  if (run.entry < 0) return false;
  running* const entry = &calls[run.entry];
  const bool was_wanted = entry->wanted == entry->call;
  const unsigned long thread = entry->thread;
  entry->call = 0;
  // An exception that the thread has not noticed yet must not reach its next call.
  if (was_wanted && thread != 0) PyThreadState_SetAsyncExc(thread, NULL);
  return was_wanted;
}

/// Raises the exception in threads other than the main thread whose calls shall be stopped. Returns
/// true if the main thread has such a call.
static bool raise_in_threads(void) {
  bool is_own = false;
  for (unsigned i = 0; i < used; ++i) {
    running* const entry = &calls[i];
    const uint64_t call = entry->call;
    if (call == 0 || entry->wanted != call) continue;
    if (entry->thread == 0) {
      // The main thread may run only one of its calls: the last one.
      is_own = true;
    } else if (entry->told != call) {
      entry->told = call;
      PyThreadState_SetAsyncExc(entry->thread, stop_type);
    }
  }
  return is_own;
}

/// pass_stops(): stops calls in threads other than the main thread. Does not return.
PyObject* fcp_pass_stops(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  for (;;) {
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = sem_wait(&asked);
    Py_END_ALLOW_THREADS
    if (status == 0) {
      raise_in_threads();
    } else if (errno != EINTR) {
      return PyErr_SetFromErrno(PyExc_OSError);
    }
  }
}

bool fcp_is_stop(void) { return stop_type != NULL && PyErr_ExceptionMatches(stop_type); }

PyObject* fcp_on_stop(PyObject* module, PyObject* arguments) {
  (void)module;
  (void)arguments;
  if (!raise_in_threads()) Py_RETURN_NONE;
  PyErr_SetNone(stop_type);
  return NULL;
}
