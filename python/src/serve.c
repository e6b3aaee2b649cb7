// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

// The loop of a worker: Python threads take calls and run them. The main thread takes calls as long
// as no task waits for other calls. While a task waits, a helper thread takes calls in its place.

/// Time for which a thread waits for the next call before it lets other Python threads run, and
/// before it may sleep.
static const int64_t spin_ns = 20000;
static const int64_t first_pause_ns = 1000000;
static const int64_t longest_pause_ns = 20000000;

static fc_job* served;
static fcp_job* job; ///< job whose calls are served; lives as long as the process
static long active;  ///< threads that take or run calls; waiting tasks do not count
/// Threads with calls that have not ended, and which run no tasks. Tasks may wait for these
/// threads.
static long callers;
static PyObject* describe; ///< describe(exception) returns an object that can be pickled

PyObject* fcp_die_with_parent(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Py_RETURN_NONE;
}

// A worker that is busy for long returns calls that it has not begun, if the caller asks for it,
// because another worker may be free. A thread without Python does this.

static const char return_name[] = "farcall.python.return";
static sem_t wanted; ///< posted once for each request
static pthread_once_t started = PTHREAD_ONCE_INIT;

// Calls of actors must stay in their order. So this thread keeps them for the threads that run
// calls, and takes calls only while no other thread does.

typedef struct kept_call {
  struct kept_call* next;
  fc_taken call;
} kept_call;

static atomic_long takers;   ///< threads that take calls in order to run them
static atomic_bool collects; ///< true while calls are returned and kept
static atomic_bool has_kept; ///< true if there are kept calls
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static kept_call* kept_calls;
static kept_call** kept_end = &kept_calls;

static bool is_for_actor(const fc_taken* call) {
  uint64_t number = 0;
  if (call->size >= sizeof number) memcpy(&number, call->bytes, sizeof number);
  return (number & FCP_ACTOR_BIT) != 0;
}

/// Returns the number by which the caller can stop the call, or 0.
static uint64_t number_of(const fc_taken* call) {
  fcp_prefix prefix = {0};
  if (call->size >= sizeof prefix) memcpy(&prefix, call->bytes, sizeof prefix);
  return prefix.call;
}

static void keep(const fc_taken* call) {
  kept_call* const made = malloc(sizeof *made);
  if (made == NULL) {
    fc_reply_error(call->reply, "MemoryError", "no memory for a call of an actor");
    return;
  }
  *made = (kept_call){NULL, *call};
  *kept_end = made;
  kept_end = &made->next;
  atomic_store(&has_kept, true);
}

/// Takes the oldest call that was kept. Returns false if there is none.
static bool take_kept(fc_taken* call) {
  pthread_mutex_lock(&keeping);
  kept_call* const oldest = kept_calls;
  if (oldest != NULL) {
    *call = oldest->call;
    kept_calls = oldest->next;
    if (kept_calls == NULL) {
      kept_end = &kept_calls;
      atomic_store(&has_kept, false);
    }
  }
  pthread_mutex_unlock(&keeping);
  free(oldest);
  return oldest != NULL;
}

/// Locked by a thread that takes a call. After a call of an actor, the thread keeps the lock until
/// it has handed the call over, because another thread could hand over a later call before.
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

/// Takes the next call to run it, like fc_take(). A thread with the GIL returns FC_TIMEOUT if
/// another thread is taking a call, because that thread may need the GIL.
static fc_status take_to_run(int64_t timeout_ns, bool has_gil, fc_taken* call) {
  atomic_fetch_add(&takers, 1);
  while (atomic_load(&collects)) {
    atomic_fetch_sub(&takers, 1);
    pthread_mutex_lock(&keeping); // until the calls were collected
    pthread_mutex_unlock(&keeping);
    atomic_fetch_add(&takers, 1);
  }
  fc_status status = FC_TIMEOUT;
  if ((has_gil ? pthread_mutex_trylock(&taking) : pthread_mutex_lock(&taking)) == 0) {
    const bool found = atomic_load_explicit(&has_kept, memory_order_acquire) && take_kept(call);
    status = found ? FC_OK : fc_take(timeout_ns, call);
    if (status != FC_OK || !is_for_actor(call)) pthread_mutex_unlock(&taking);
  }
  atomic_fetch_sub(&takers, 1);
  return status;
}

static void* return_calls(void* unused) {
  static const fcp_header returned = {.kind = FCP_RETURNED};
  fc_taken call;
  for (;;) {
    sem_wait(&wanted);
    pthread_mutex_lock(&keeping);
    atomic_store(&collects, true);
    while (atomic_load(&takers) == 0 && fc_take(0, &call) == FC_OK) {
      if (is_for_actor(&call)) {
        keep(&call);
      } else {
        // The caller sends the call again, with other blocks and another number.
        fcp_forget_stop(&call, number_of(&call));
        fcp_drop_message(job == NULL ? NULL : job->store, call.bytes, call.size, FCP_CALL_PREFIX);
        fc_reply_bytes(call.reply, &returned, sizeof returned);
      }
    }
    atomic_store(&collects, false);
    pthread_mutex_unlock(&keeping);
  }
  return unused;
}

static void start_returning(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &return_calls, NULL) == 0) pthread_detach(thread);
}

static void want_calls_back(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply;
  (void)bytes;
  (void)size;
  (void)user;
  pthread_once(&started, &start_returning);
  sem_post(&wanted);
}

fc_status fcp_ask_to_return(fc_node node) {
  static fc_function number;
  if (number == 0) number = fc_named(return_name);
  return fcp_tell(node, number, NULL, 0);
}

void fcp_serve_job(fcp_job* of) {
  Py_INCREF((PyObject*)of);
  job = of;
}

fc_status fcp_register_calls(PyObject* describe_exception) {
  if (describe != NULL) return FC_OK;
  Py_INCREF(describe_exception);
  describe = describe_exception;
  sem_init(&wanted, 0, 0);
  fc_status status = fc_register_taken("farcall.python.run", NULL);
  if (status == FC_OK) status = fc_register(return_name, &want_calls_back, NULL);
  if (status == FC_OK) status = fcp_register_stops();
  return status == FC_OK ? fcp_register_notes() : status;
}

/// serve_open(socket, describe): joins the job, and returns a Job for calls to other workers. If
/// the socket is -1, the process was started as a target; otherwise returns None.
PyObject* fcp_serve_open(PyObject* module, PyObject* arguments) {
  (void)module;
  int socket = -1;
  PyObject* describe_exception = NULL;
  if (!PyArg_ParseTuple(arguments, "iO", &socket, &describe_exception)) return NULL;
  fc_status status = fcp_register_calls(describe_exception);
  Py_BEGIN_ALLOW_THREADS
  if (status == FC_OK) status = fc_serve_open(socket, &served);
  Py_END_ALLOW_THREADS
  if (status != FC_OK) return fcp_raise(status);
  if (served == NULL) Py_RETURN_NONE;
  fcp_job* const made = (fcp_job*)fcp_job_of_worker(served);
  if (made != NULL) fcp_serve_job(made);
  return (PyObject*)made;
}

static fc_status send_parts(fc_reply* reply, const fcp_message* m) {
  if (m->part_count == 1) return fc_reply_bytes(reply, m->parts[0].at, m->parts[0].size);
  void* memory = NULL;
  const fc_status status = fc_reply_reserve(reply, m->total, &memory);
  if (status != FC_OK) return status;
  char* at = memory;
  for (size_t i = 0; i < m->part_count; ++i) {
    if (m->parts[i].size != 0) memcpy(at, m->parts[i].at, m->parts[i].size);
    at += m->parts[i].size;
  }
  return fc_reply_reserved(reply, m->total);
}

static fc_status send_message(fc_reply* reply, fcp_message* m) {
  // The caller drops the reply of a stopped call, and would not free blocks.
  fc_status status = FC_OK;
  if (m->has_large && !fc_reply_stopped(reply))
    status = fcp_message_lend(m, job, fc_reply_caller(reply));
  if (status == FC_OK) status = send_parts(reply, m);
  if (status == FC_OK) fcp_message_was_sent(m);
  return status;
}

/// Replies with the pending exception.
static void reply_exception(fc_reply* reply) {
  fcp_message m;
  PyObject* const exception = fcp_take_exception();
  PyObject* const described =
      exception == NULL ? NULL : PyObject_CallFunctionObjArgs(describe, exception, NULL);
  Py_XDECREF(exception);
  fc_status status = FC_ERROR;
  if (described != NULL) {
    if (fcp_message_of_object(&m, FCP_EXCEPTION, described) == 0) status = send_message(reply, &m);
    fcp_message_clear(&m);
    Py_DECREF(described);
  }
  if (status != FC_OK) {
    PyErr_Clear();
    fc_reply_error(reply, "RuntimeError", "the exception of the task could not be sent");
  }
}

/// Lets handles of actors that a message contains outlive this process's handles, until the
/// receiver has made its own.
static int lend_handles(const fcp_message* m) {
  if (m->pickled == NULL || PyList_CheckExact(m->pickled)) return 0;
  PyObject* const done = PyObject_CallMethod(m->pickled, "lend", NULL);
  Py_XDECREF(done);
  return done == NULL ? -1 : 0;
}

/// Replies with a small result, without the memory of a message. Returns false for other results.
static bool reply_small(fc_reply* reply, PyObject* result) {
  char bytes[sizeof(fcp_header) + fcp_small_bytes];
  const fcp_header header = {.kind = FCP_PLAIN, .values = 1};
  const size_t size = result == Py_None ? 0 : fcp_put_small(bytes + sizeof header, result);
  if (size == 0 && result != Py_None) return false;
  memcpy(bytes, &header, sizeof header);
  return fc_reply_bytes(reply, bytes, size == 0 ? 0 : sizeof header + size) == FC_OK;
}

/// Replies with a result, or with the error that sending it has caused.
static void reply_result(fc_reply* reply, PyObject* result, bool wants_views) {
  fcp_message m;
  if (reply_small(reply, result)) return;
  if (fcp_message_of_result(&m, result, wants_views) == 0 && lend_handles(&m) == 0) {
    const fc_status status = send_message(reply, &m);
    if (status != FC_OK) {
      fcp_raise(status);
      reply_exception(reply);
    }
  } else {
    reply_exception(reply);
  }
  fcp_message_clear(&m);
}

static PyObject* call_function(PyObject* function, const char* bytes, size_t size,
                               bool* wants_views) {
  static const fcp_header no_arguments;
  if (size == sizeof(fcp_prefix) + sizeof no_arguments &&
      memcmp(bytes + sizeof(fcp_prefix), &no_arguments, sizeof no_arguments) == 0) {
    return PyObject_CallNoArgs(function);
  }
  PyObject* const both = fcp_arguments_of(job, bytes, size, wants_views);
  if (both == NULL) return NULL;
  PyObject* const arguments = PyTuple_GetItem(both, 0);
  PyObject* const keywords = PyTuple_GetItem(both, 1);
  PyObject* const result =
      PyObject_Call(function, arguments, keywords == Py_None ? NULL : keywords);
  Py_DECREF(both);
  return result;
}

static void reply_kind(fc_reply* reply, enum fcp_kind kind) {
  const fcp_header header = {.kind = (uint8_t)kind};
  fc_reply_bytes(reply, &header, sizeof header);
}

/// Replies to a call that does not run, whose blocks nobody reads.
static void reply_without_run(const fc_taken* call, enum fcp_kind kind) {
  fcp_drop_message(job->store, call->bytes, call->size, FCP_CALL_PREFIX);
  reply_kind(call->reply, kind);
}

/// Runs the function with the arguments of the call. Replies, also that the call was stopped.
static void run_function(const fc_taken* call, fcp_run this_run, PyObject* function) {
  bool wants_views = false;
  PyObject* const result =
      function == NULL ? NULL : call_function(function, call->bytes, call->size, &wants_views);
  if (function == NULL) fcp_drop_message(job->store, call->bytes, call->size, FCP_CALL_PREFIX);
  const bool is_stopped = fcp_end_run(this_run) && result == NULL && fcp_is_stop();
  if (is_stopped) {
    PyErr_Clear();
    reply_kind(call->reply, FCP_STOPPED);
  } else if (result == NULL) {
    reply_exception(call->reply);
  } else {
    reply_result(call->reply, result, wants_views);
    Py_DECREF(result);
  }
}

void fcp_run_taken(const fc_taken* call, PyObject* function) {
  fcp_prefix prefix;
  memcpy(&prefix, call->bytes, sizeof prefix);
  const fcp_run this_run = fcp_begin_run(call, prefix.call);
  if (this_run.is_stopped) {
    fcp_end_run(this_run);
    reply_without_run(call, FCP_STOPPED);
  } else {
    run_function(call, this_run, function);
  }
}

/// Finds the function of a call. Returns true if the function has to run here, which is NULL with a
/// pending exception if its definition cannot be read. Otherwise replies to the call, or hands it
/// over to the thread of an actor.
static bool begin_call(const fc_taken* call, fcp_run* this_run, PyObject** function) {
  fcp_prefix prefix;
  if (call->size < sizeof prefix) {
    fc_reply_error(call->reply, "ValueError", "a call without the number of a function");
    return false;
  }
  memcpy(&prefix, call->bytes, sizeof prefix);
  *this_run = fcp_begin_run(call, prefix.call);
  *function = this_run->is_stopped ? NULL : fcp_function(prefix.function);
  const bool is_handed = *function != NULL && fcp_is_handed(*function);
  if (*function != NULL && !is_handed) return true;
  if (*function == NULL && PyErr_Occurred()) return true;
  const bool is_stopped = fcp_leave_run(*this_run) || this_run->is_stopped;
  if (is_handed && !is_stopped) {
    fcp_hand_over(*function, call);
  } else {
    reply_without_run(call, is_stopped ? FCP_STOPPED : FCP_UNDEFINED);
  }
  return false;
}

static void run(const fc_taken* call) {
  fcp_run this_run;
  PyObject* function = NULL;
  const bool runs_here = begin_call(call, &this_run, &function);
  if (is_for_actor(call)) pthread_mutex_unlock(&taking);
  if (runs_here) run_function(call, this_run, function);
  Py_XDECREF(function);
}

/// Returns a copy of the object, as a caller would get it.
static PyObject* copy_of_result(PyObject* result) {
  fcp_message m;
  PyObject* copy = NULL;
  if (fcp_message_of_result(&m, result, false) == 0) {
    enum fcp_kind kind = FCP_PLAIN;
    char* const bytes = fcp_joined(&m);
    if (bytes != NULL) copy = fcp_result_of(job, bytes, m.total, &kind);
    free(bytes);
  }
  fcp_message_clear(&m);
  return copy;
}

PyObject* fcp_run_here(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* function = NULL;
  PyObject* message = NULL;
  if (!PyArg_ParseTuple(arguments, "OO", &function, &message)) return NULL;
  if (!fcp_is_function(function) || !fcp_is_message(message)) {
    PyErr_SetString(PyExc_TypeError, "run_here() takes a Function and a Message");
    return NULL;
  }
  PyObject* const loaded = fcp_loaded(function);
  char* const bytes = loaded == NULL ? NULL : fcp_joined(fcp_message_in(message));
  if (bytes == NULL) {
    Py_XDECREF(loaded);
    return NULL;
  }
  bool wants_views = false;
  PyObject* const result =
      call_function(loaded, bytes, fcp_message_in(message)->total, &wants_views);
  free(bytes);
  Py_DECREF(loaded);
  PyObject* const copy = result == NULL ? NULL : copy_of_result(result);
  Py_XDECREF(result);
  return copy;
}

/// True if the process has Python threads other than the main thread.
static bool has_threads(void) {
  static PyObject* count;
  if (count == NULL) {
    PyObject* const module = PyImport_ImportModule("_thread");
    if (module != NULL) count = PyObject_GetAttrString(module, "_count");
    Py_XDECREF(module);
  }
  PyObject* const number = count == NULL ? NULL : PyObject_CallNoArgs(count);
  const long threads = number == NULL ? 1 : PyLong_AsLong(number);
  Py_XDECREF(number);
  PyErr_Clear();
  return threads != 0;
}

/// Takes the next call in the main thread. While there is no other Python thread, first waits with
/// the GIL, because taking it again costs time.
static fc_status take(fc_taken* call) {
  static unsigned taken;
  static bool alone;
  if (taken++ % 64 == 0) alone = !has_threads();
  if (alone) {
    const fc_status status = take_to_run(spin_ns, true, call);
    if (status != FC_TIMEOUT) return status;
    taken = 0;
  }
  fc_status status;
  Py_BEGIN_ALLOW_THREADS
  status = take_to_run(-1, false, call);
  Py_END_ALLOW_THREADS
  return status;
}

/// serve(): takes and runs calls in the main thread until the job ends.
static PyObject* serve_in_main(void) {
  fc_taken call;
  fc_status status;
  active = 1;
  while ((status = take(&call)) == FC_OK)
    run(&call);
  if (status != FC_ENDED) return fcp_raise(status);
  Py_RETURN_NONE;
}

/// Takes and runs calls in a helper thread while it is needed. Returns True if the job has ended.
static PyObject* serve_in_helper(void) {
  int64_t pause = first_pause_ns;
  fc_taken call;
  while (active <= 1 + callers) {
    fc_status status;
    Py_BEGIN_ALLOW_THREADS
    status = take_to_run(pause, false, &call);
    Py_END_ALLOW_THREADS
    if (status == FC_OK) {
      pause = first_pause_ns;
      run(&call);
    } else if (status == FC_TIMEOUT) {
      pause = pause * 2 < longest_pause_ns ? pause * 2 : longest_pause_ns;
    } else {
      Py_RETURN_TRUE;
    }
  }
  --active;
  Py_RETURN_FALSE;
}

PyObject* fcp_serve(PyObject* module, PyObject* arguments) {
  (void)module;
  int is_helper = 0;
  if (!PyArg_ParseTuple(arguments, "|p", &is_helper)) return NULL;
  return is_helper ? serve_in_helper() : serve_in_main();
}

/// Returns True, and counts a helper as active, if all active threads may run tasks that wait for
/// callers. Each of these tasks waits for one at least.
static PyObject* needs_helper(void) {
  if (active > callers) Py_RETURN_FALSE;
  ++active;
  Py_RETURN_TRUE;
}

/// begin_wait(): says that the thread runs a task that waits. Returns True if a helper must serve,
/// which then counts as active.
PyObject* fcp_begin_wait(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  --active;
  return needs_helper();
}

/// end_wait(): says that the thread goes on with its task.
PyObject* fcp_end_wait(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  ++active;
  Py_RETURN_NONE;
}

/// begin_calls(): says that a thread that runs no task has calls. Returns True if a helper must
/// serve, which then counts as active.
PyObject* fcp_begin_calls(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  ++callers;
  return needs_helper();
}

/// end_calls(): says that the calls of begin_calls() have ended.
PyObject* fcp_end_calls(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  --callers;
  Py_RETURN_NONE;
}
