// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

// The type Express: the fast way of a pool's calls, without Python code. Calls of functions that
// are known already are sent to a worker that is free, and results of futures for which no thread
// waits in Python are stored at once. All else goes to the pool, which then knows the call.

static PyTypeObject* express_type;

/// Bit of a tag of the queue whose other bits are the address of a future.
static const uint64_t express_bit = UINT64_C(1) << 62;
/// Workers get more calls than they can run, up to about this time of work and this number, so that
/// they need not wait for the next one. If one runs a call for longer, and another worker is free,
/// it returns the others.
static const double ahead_seconds = 0.008;
static const int64_t slice_ns = 50000000;
static const int64_t spin_ns = 5000;
/// Time for which submit() waits for a free worker, if calls are short.
static const int64_t most_wait_ns = 50000;
static const double short_seconds = 20e-6;
/// A worker without calls sleeps after idle_seconds. To wake up, it takes at most wake_seconds.
static const double idle_seconds = 20e-6;
static const double wake_seconds = 0.001;

enum { most_ahead = 512, most_taken = 64 };

/// Calls of the nodes of a place in the order in which they were sent. The place of a node is its
/// number modulo 65,536. If a node has got the place of one that has ended, the calls of the ended
/// node stay in the list until they are taken.
typedef struct list {
  fcp_future* first;
  fcp_future* last;
  uint32_t count;
  double since; ///< time at which the first call has begun, at the earliest
  bool slept;   ///< true if the node may have slept when the first call was sent
} list;

static uint32_t place_of(uint32_t node) { return node & 0xffff; }

typedef struct fcp_express {
  PyObject ob_base;
  fcp_job* job;
  PyObject* pool;         ///< NULL after close()
  PyObject* by_name;      ///< dict of the known functions
  PyObject* pending;      ///< deque of calls for which no worker was free
  PyObject* refuse;       ///< function for submit() after close(), or NULL
  PyObject* append;       ///< append(completion) leaves a completion to the pool's thread
  PyTypeObject* kinds[3]; ///< types of functions that `by_name` may contain
  list* lists;            ///< by the places of the nodes
  uint32_t list_count;
  size_t total; ///< calls in all lists
  uint64_t next;
  double seconds; ///< estimate of the time of a call
  char is_open;   ///< true if submit() may send calls
  char is_needed; ///< true while the pool's thread takes results
  char is_watching;
  sem_t role;           ///< held by the thread that takes results
  unsigned long thread; ///< the pool's thread
} fcp_express;

/// express(job, pool, by_name, pending, append)
static PyObject* express_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  PyObject* job = NULL;
  PyObject* pool = NULL;
  PyObject* by_name = NULL;
  PyObject* pending = NULL;
  PyObject* append = NULL;
  if (!PyArg_ParseTuple(arguments, "OOO!OO", &job, &pool, &PyDict_Type, &by_name, &pending,
                        &append))
    return NULL;
  const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  fcp_express* const self = (fcp_express*)allocate(type, 0);
  if (self == NULL) return NULL;
  sem_init(&self->role, 0, 1);
  self->seconds = 1;
  self->job = (fcp_job*)job;
  self->pool = pool;
  self->by_name = by_name;
  self->pending = pending;
  self->append = append;
  Py_INCREF(job);
  Py_INCREF(pool);
  Py_INCREF(by_name);
  Py_INCREF(pending);
  Py_INCREF(append);
  ((fcp_job*)job)->express = (PyObject*)self;
  return (PyObject*)self;
}

static int express_traverse(PyObject* object, visitproc visit, void* arg) {
  fcp_express* const self = (fcp_express*)object;
  Py_VISIT((PyObject*)Py_TYPE(object));
  Py_VISIT((PyObject*)self->job);
  Py_VISIT(self->pool);
  Py_VISIT(self->by_name);
  Py_VISIT(self->pending);
  Py_VISIT(self->append);
  Py_VISIT(self->refuse);
  return 0;
}

/// Takes a future out of its list, which has owned it.
static void unlink_future(fcp_express* self, fcp_future* f) {
  list* const from = &self->lists[place_of(f->node)];
  *(f->previous == NULL ? &from->first : &f->previous->next) = f->next;
  *(f->next == NULL ? &from->last : &f->next->previous) = f->previous;
  f->next = NULL;
  f->previous = NULL;
  f->is_express = false;
  --from->count;
  --self->total;
  Py_DECREF((PyObject*)f);
}

static int express_clear(PyObject* object) {
  fcp_express* const self = (fcp_express*)object;
  self->is_open = 0;
  if (self->job != NULL && self->job->express == object) self->job->express = NULL;
  for (uint32_t i = 0; i < self->list_count; ++i) {
    while (self->lists[i].first != NULL) {
      fcp_future* const f = self->lists[i].first;
      if (f->is_queued) Py_DECREF((PyObject*)f); // the queue was closed, and does not give it back
      f->is_queued = false;
      unlink_future(self, f);
    }
  }
  PyObject* const job = (PyObject*)self->job;
  self->job = NULL;
  Py_XDECREF(job);
  Py_CLEAR(self->pool);
  Py_CLEAR(self->by_name);
  Py_CLEAR(self->pending);
  Py_CLEAR(self->append);
  Py_CLEAR(self->refuse);
  return 0;
}

static void express_dealloc(PyObject* object) {
  fcp_express* const self = (fcp_express*)object;
  PyObject_GC_UnTrack(object);
  express_clear(object);
  free(self->lists);
  sem_destroy(&self->role);
  PyTypeObject* const type = Py_TYPE(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

/// Returns the list of a node, or NULL if memory is missing.
static list* list_of(fcp_express* self, uint32_t node) {
  const uint32_t place = place_of(node);
  if (place >= self->list_count) {
    const uint32_t count = place + 16;
    list* const lists = realloc(self->lists, count * sizeof *lists);
    if (lists == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    memset(lists + self->list_count, 0, (count - self->list_count) * sizeof *lists);
    self->lists = lists;
    self->list_count = count;
  }
  return &self->lists[place];
}

static void append_future(fcp_express* self, list* to, fcp_future* f) {
  f->previous = to->last;
  *(to->last == NULL ? &to->first : &to->last->next) = f;
  to->last = f;
  f->is_express = true;
  ++to->count;
  ++self->total;
  Py_INCREF((PyObject*)f);
}

// ---- results ------------------------------------------------------------------------------------

/// Estimates the time of a call, after a call has ended. A long call counts at once. If the node
/// may have slept before, a short time is left out, because it may be the time to wake up.
static void measure(fcp_express* self, double seconds, bool slept) {
  if (slept && seconds < wake_seconds) return;
  double estimate = (self->seconds + seconds) / 2;
  if (estimate < seconds) estimate = seconds;
  self->seconds = estimate < 1e-6 ? 1e-6 : estimate;
}

static double now_seconds(void) { return (double)fcp_now_ns() * 1e-9; }

bool fcp_is_express_tag(uint64_t tag) { return (tag & express_bit) != 0; }

PyObject* fcp_complete(fcp_job* job, const fc_completion* completion) {
  fcp_future* const f = (fcp_future*)(uintptr_t)(completion->tag & ~express_bit);
  const uint32_t node = f->node;
  fcp_end_call(job, node);
  f->is_queued = false;
  int outcome = 0;
  PyObject* value = fcp_outcome_of(job, completion->future, node, &outcome);
  fcp_express* const self = (fcp_express*)job->express;
  const bool is_express = f->is_express && self != NULL;
  if (is_express && outcome == 0 && f->made == NULL && f->state == FCP_RUNNING) {
    unlink_future(self, f);
    f->result = value;
    f->state = FCP_FINISHED;
    fcp_forget_call(f);
    list* const of = &self->lists[place_of(node)];
    const double now = now_seconds();
    measure(self, now - of->since, of->slept);
    of->since = now;
    of->slept = false;
    Py_DECREF((PyObject*)f);
    Py_RETURN_NONE;
  }
  // The pool finds calls that it knows by their numbers. Other calls stay in the list until
  // hand_over(), so that their node counts as busy.
  if (is_express) return Py_BuildValue("(NIiN)", (PyObject*)f, (unsigned)node, outcome, value);
  PyObject* const each =
      Py_BuildValue("(KIiN)", (unsigned long long)f->number, (unsigned)node, outcome, value);
  Py_DECREF((PyObject*)f);
  return each;
}

/// Handles completions that were taken from the queue. Returns 1 if one was left to the pool's
/// thread, or -1.
static int handle(fcp_express* self, const fc_completion* taken, size_t count) {
  int left = 0;
  for (size_t i = 0; i < count; ++i) {
    PyObject* const each = fcp_describe_completion(self->job, &taken[i]);
    if (each == Py_None) {
      Py_DECREF(each);
      continue;
    }
    // Once one is left to the thread, later ones follow it, so that their order is kept.
    PyObject* const simple = each == NULL || left != 0
                                 ? NULL
                                 : PyObject_CallMethod(self->pool, "_take_simple", "(O)", each);
    if (simple == NULL && PyErr_Occurred()) PyErr_WriteUnraisable((PyObject*)self);
    if (each != NULL && simple != Py_True) {
      PyObject* const done = PyObject_CallFunctionObjArgs(self->append, each, NULL);
      if (done == NULL) PyErr_WriteUnraisable((PyObject*)self);
      Py_XDECREF(done);
      left = 1;
    }
    Py_XDECREF(simple);
    Py_XDECREF(each);
  }
  if (left == 0) return 0;
  PyObject* const done = PyObject_CallMethod(self->pool, "need_thread", NULL);
  Py_XDECREF(done);
  return done == NULL ? -1 : 1;
}

/// Takes results in the calling thread until the future has its result, or until they are left to
/// the pool's thread. The caller has the role.
static int take_until(fcp_express* self, fcp_future* f) {
  fc_completion taken[most_taken];
  while (!self->is_needed && self->job != NULL && self->job->job != NULL &&
         !fcp_future_has_ended(f)) {
    size_t count = 0;
    fc_queue* const queue = self->job->queue;
    fc_status status = fc_queue_take(queue, taken, most_taken, spin_ns, &count);
    if (status == FC_TIMEOUT) {
      Py_BEGIN_ALLOW_THREADS
      status = fc_queue_take(queue, taken, most_taken, slice_ns, &count);
      Py_END_ALLOW_THREADS
    }
    if (status == FC_OK) {
      const int left = handle(self, taken, count);
      if (left != 0) return left < 0 ? -1 : 0;
    } else if (status != FC_TIMEOUT && status != FC_INTERRUPTED) {
      fcp_raise(status);
      return -1;
    }
    if (PyErr_CheckSignals() != 0) return -1;
  }
  return 0;
}

int fcp_help(PyObject* object, fcp_future* f) {
  fcp_express* const self = (fcp_express*)object;
  if (self->pool == NULL) return 0;
  if (self->thread != 0 && self->thread == PyThread_get_thread_ident()) {
    PyObject* const done =
        PyObject_CallMethod(self->pool, "_help_in_callback", "(O)", (PyObject*)f);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
  }
  if (self->is_needed || sem_trywait(&self->role) != 0) return 0;
  Py_INCREF(object);
  const int done = take_until(self, f);
  sem_post(&self->role);
  Py_DECREF(object);
  return done;
}

/// help(future): takes results in the calling thread until the future has its result, unless
/// another thread takes them. This saves a change of threads.
static PyObject* express_help(PyObject* object, PyObject* future) {
  if (!fcp_is_future(future)) {
    PyErr_SetString(PyExc_TypeError, "help() takes a Future");
    return NULL;
  }
  if (fcp_help(object, (fcp_future*)future) != 0) return NULL;
  Py_RETURN_NONE;
}

// ---- calls --------------------------------------------------------------------------------------

static uint32_t window(const fcp_express* self) {
  const double calls = ahead_seconds / self->seconds;
  return calls < 1 ? 1 : calls > most_ahead ? most_ahead : (uint32_t)calls;
}

/// Takes results, if no other thread does, until there is one or `timeout_ns` have passed.
static int drain(fcp_express* self, int64_t timeout_ns) {
  if (self->is_needed || sem_trywait(&self->role) != 0) return 0;
  fc_completion taken[most_taken];
  size_t count = 0;
  int done = 0;
  if (fc_queue_take(self->job->queue, taken, most_taken, timeout_ns, &count) == FC_OK)
    done = handle(self, taken, count);
  sem_post(&self->role);
  return done < 0 ? -1 : 0;
}

/// poll(timeout_ns): takes results that come in this time, unless another thread takes them.
static PyObject* express_poll(PyObject* object, PyObject* timeout) {
  fcp_express* const self = (fcp_express*)object;
  const long long timeout_ns = PyLong_AsLongLong(timeout);
  if (PyErr_Occurred()) return NULL;
  const bool may = self->pool != NULL && self->job->job != NULL;
  if (may && drain(self, timeout_ns) != 0) return NULL;
  Py_RETURN_NONE;
}

/// Finds a free node. If calls are short, waits a little for one. Returns -1 for an error.
static int find_free(fcp_express* self, uint32_t least, fc_node* node) {
  const bool is_short = self->seconds < short_seconds && self->total != 0;
  for (int i = 0; i <= (is_short ? 1 : 0); ++i) {
    if (i == 1 && drain(self, most_wait_ns) != 0) return -1;
    if (self->is_open && self->job != NULL && self->job->job != NULL &&
        fcp_free_node(self->job, window(self) < least ? least : window(self), node)) {
      return 1;
    }
  }
  return 0;
}

/// Leaves a call to the pool.
static PyObject* leave_to_pool(fcp_express* self, fcp_future* f, PyObject* function,
                               PyObject* message, PyObject* called) {
  PyObject* const done = PyObject_CallMethod(self->pool, "enqueue_new", "OOOO", (PyObject*)f,
                                             function, message, called);
  Py_DECREF(message);
  Py_XDECREF(done);
  if (done != NULL) return (PyObject*)f;
  Py_DECREF((PyObject*)f);
  return NULL;
}

/// Sends a call to the node. Returns false if it was not sent.
static bool send_to(fcp_express* self, fc_node node, list* to, fcp_future* f, PyObject* function,
                    PyObject* message) {
  fc_future* sent = NULL;
  // Copying large bytes takes the GIL away, and then other threads may change the lists.
  if (fcp_message_in(message)->has_large) return false;
  f->number = ++self->next;
  fcp_count_call(self->job, node.id);
  fc_status status = fcp_send(function, message, node, f->number, false, &sent);
  if (status == FC_OK) {
    f->node = node.id;
    f->has_node = true;
    status = fc_queue_add(self->job->queue, sent, express_bit | (uint64_t)(uintptr_t)f);
    if (status != FC_OK) fc_future_drop(sent);
  }
  if (status != FC_OK) {
    f->has_node = false;
    fcp_end_call(self->job, node.id);
    return false;
  }
  if (to->first == NULL) {
    const double now = now_seconds();
    to->slept = now - to->since > idle_seconds;
    to->since = now;
  }
  append_future(self, to, f);
  f->is_queued = true;
  Py_INCREF((PyObject*)f);
  return true;
}

static PyObject* start(fcp_express* self, PyObject* called, PyObject* function, PyObject* arguments,
                       PyObject* keywords, uint32_t least) {
  fcp_future* const f = fcp_new_future();
  if (f == NULL) return NULL;
  bool is_plain = false;
  PyObject* const message = fcp_encode(function, arguments, keywords, &is_plain);
  if (message == NULL) {
    f->exception = fcp_take_exception();
    f->state = FCP_FINISHED;
    return (PyObject*)f;
  }
  fc_node node;
  const int is_free = find_free(self, least, &node);
  list* const to = is_free == 1 ? list_of(self, node.id) : NULL;
  if (is_free < 0 || (is_free == 1 && to == NULL)) {
    Py_DECREF(message);
    Py_DECREF((PyObject*)f);
    return NULL;
  }
  if (is_free == 0 || !send_to(self, node, to, f, function, message))
    return leave_to_pool(self, f, function, message, called);
  f->state = FCP_RUNNING;
  f->pool = self->pool;
  f->express = (PyObject*)self;
  f->function = function;
  f->called = called;
  Py_INCREF(f->pool);
  Py_INCREF(f->express);
  Py_INCREF(f->function);
  Py_INCREF(f->called);
  if (is_plain) {
    // Values of plain messages never change, so the message can be made again.
    f->arguments = arguments;
    Py_INCREF(arguments);
    Py_DECREF(message);
  } else {
    f->message = message;
  }
  if (!self->is_watching) {
    PyObject* const done = PyObject_CallMethod(self->pool, "_watch_calls", NULL);
    if (done == NULL) {
      Py_DECREF((PyObject*)f);
      return NULL;
    }
    Py_DECREF(done);
  }
  return (PyObject*)f;
}

/// submit(function, arguments, keywords, least=1): calls a function, and returns a future. Nodes
/// get up to `least` calls in any case.
static PyObject* express_submit(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
  fcp_express* const self = (fcp_express*)object;
  const unsigned long least = count == 4 ? PyLong_AsUnsignedLong(arguments[3]) : 1;
  if (least == (unsigned long)-1 && PyErr_Occurred()) return NULL;
  if ((count != 3 && count != 4) || !PyTuple_Check(arguments[1]) || !PyDict_Check(arguments[2])) {
    PyErr_SetString(PyExc_TypeError, "submit() takes a function, a tuple and a dict");
    return NULL;
  }
  PyTypeObject* const type = Py_TYPE(arguments[0]);
  if (self->is_open && PyObject_Size(self->pending) == 0 &&
      (type == self->kinds[0] || type == self->kinds[1] || type == self->kinds[2])) {
    PyObject* const function = PyDict_GetItemWithError(self->by_name, arguments[0]);
    if (function != NULL) {
      Py_INCREF(function);
      PyObject* const f =
          start(self, arguments[0], function, arguments[1], arguments[2], (uint32_t)least);
      Py_DECREF(function);
      return f;
    }
    if (PyErr_Occurred()) return NULL;
  }
  if (self->refuse != NULL) return PyObject_CallNoArgs(self->refuse);
  return PyObject_CallMethod(self->pool, "submit", "OOO", arguments[0], arguments[1], arguments[2]);
}

// ---- for the pool -------------------------------------------------------------------------------

/// hand_over(future, needs_message): leaves a call that was sent to the pool. Returns its number,
/// and its Message or None.
static PyObject* express_hand_over(PyObject* object, PyObject* arguments) {
  fcp_express* const self = (fcp_express*)object;
  PyObject* future = NULL;
  int needs_message = 0;
  if (!PyArg_ParseTuple(arguments, "Op", &future, &needs_message)) return NULL;
  if (!fcp_is_future(future) || ((fcp_future*)future)->function == NULL) {
    PyErr_SetString(PyExc_TypeError, "hand_over() takes a Future of Express");
    return NULL;
  }
  fcp_future* const f = (fcp_future*)future;
  if (f->is_express) unlink_future(self, f);
  PyObject* message = needs_message ? f->message : Py_None;
  Py_XINCREF(message);
  if (message == NULL) {
    bool is_plain = false;
    message = fcp_encode(f->function, f->arguments, Py_None, &is_plain);
  }
  if (message == NULL) return NULL;
  return Py_BuildValue("(KN)", (unsigned long long)f->number, message);
}

uint64_t fcp_last_number(PyObject* express) {
  return express == NULL ? UINT64_MAX : ((fcp_express*)express)->next;
}

/// number(): the number of the next call. Numbers grow in the order of sending.
static PyObject* express_number(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong((unsigned long long)++((fcp_express*)object)->next);
}

/// calls(node): the number of calls of the node.
static PyObject* express_calls(PyObject* object, PyObject* node_object) {
  const fcp_express* const self = (fcp_express*)object;
  const unsigned long node = PyLong_AsUnsignedLong(node_object);
  if (PyErr_Occurred()) return NULL;
  const uint32_t place = place_of((uint32_t)node);
  return PyLong_FromUnsignedLong(place < self->list_count ? self->lists[place].count : 0);
}

/// window(): the number of calls that a node gets at a time.
static PyObject* express_window(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(window((fcp_express*)object));
}

/// since(node): the time at which the first call of the node has begun, at the earliest.
static PyObject* express_since(PyObject* object, PyObject* node_object) {
  const fcp_express* const self = (fcp_express*)object;
  const unsigned long node = PyLong_AsUnsignedLong(node_object);
  if (PyErr_Occurred()) return NULL;
  const uint32_t place = place_of((uint32_t)node);
  return PyFloat_FromDouble(place < self->list_count ? self->lists[place].since : 0);
}

/// measure(seconds, slept): estimates the time of a call. See measure().
static PyObject* express_measure(PyObject* object, PyObject* arguments) {
  double seconds = 0;
  int slept = 0;
  if (!PyArg_ParseTuple(arguments, "dp", &seconds, &slept)) return NULL;
  measure((fcp_express*)object, seconds, slept != 0);
  Py_RETURN_NONE;
}

/// total(): the number of calls that Express has sent, and that have not ended.
static PyObject* express_total(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyLong_FromSize_t(((fcp_express*)object)->total);
}

/// kinds(type, type, type): types of the functions that submit() looks for.
static PyObject* express_kinds(PyObject* object, PyObject* arguments) {
  fcp_express* const self = (fcp_express*)object;
  return PyArg_ParseTuple(arguments, "OOO", &self->kinds[0], &self->kinds[1], &self->kinds[2])
             ? PyBool_FromLong(1)
             : NULL;
}

/// try_role(): True if the calling thread may take results now.
static PyObject* express_try_role(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(sem_trywait(&((fcp_express*)object)->role) == 0);
}

/// take_role(): waits until the calling thread may take results.
static PyObject* express_take_role(PyObject* object, PyObject* unused) {
  (void)unused;
  Py_BEGIN_ALLOW_THREADS
  while (sem_wait(&((fcp_express*)object)->role) != 0) {
  }
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

/// leave_role(): lets other threads take results.
static PyObject* express_leave_role(PyObject* object, PyObject* unused) {
  (void)unused;
  sem_post(&((fcp_express*)object)->role);
  Py_RETURN_NONE;
}

/// close(refuse): forgets the pool. From now on, submit() calls `refuse`, which raises an error.
static PyObject* express_close(PyObject* object, PyObject* refuse) {
  express_clear(object);
  Py_INCREF(refuse);
  ((fcp_express*)object)->refuse = refuse;
  Py_RETURN_NONE;
}

static PyMemberDef members[] = {
    {"is_open", T_BOOL, offsetof(fcp_express, is_open), 0, NULL},
    {"is_needed", T_BOOL, offsetof(fcp_express, is_needed), 0, NULL},
    {"is_watching", T_BOOL, offsetof(fcp_express, is_watching), 0, NULL},
    {"thread", T_ULONG, offsetof(fcp_express, thread), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef methods[] = {
    {"submit", (PyCFunction)(void (*)(void))express_submit, METH_FASTCALL, NULL},
    {"help", express_help, METH_O, NULL},
    {"poll", express_poll, METH_O, NULL},
    {"hand_over", express_hand_over, METH_VARARGS, NULL},
    {"measure", express_measure, METH_VARARGS, NULL},
    {"number", express_number, METH_NOARGS, NULL},
    {"calls", express_calls, METH_O, NULL},
    {"window", express_window, METH_NOARGS, NULL},
    {"since", express_since, METH_O, NULL},
    {"total", express_total, METH_NOARGS, NULL},
    {"kinds", express_kinds, METH_VARARGS, NULL},
    {"try_role", express_try_role, METH_NOARGS, NULL},
    {"take_role", express_take_role, METH_NOARGS, NULL},
    {"leave_role", express_leave_role, METH_NOARGS, NULL},
    {"close", express_close, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Fast way of the calls of a pool."},
    {Py_tp_new, (void*)express_new},
    {Py_tp_traverse, (void*)express_traverse},
    {Py_tp_clear, (void*)express_clear},
    {Py_tp_dealloc, (void*)express_dealloc},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "farcall._core.Express",
    .basicsize = sizeof(fcp_express),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int fcp_add_express_type(PyObject* module) {
  express_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return express_type == NULL ? -1
                              : PyModule_AddObjectRef(module, "Express", (PyObject*)express_type);
}
