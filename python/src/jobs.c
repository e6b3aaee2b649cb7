// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <farcall/c/equals.h>

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

// The type Job, which sends calls to nodes, and takes their results from a queue.

static PyTypeObject* job_type;

/// Time for which a call waits with the GIL. Other threads of Python cannot run meanwhile.
static const int64_t spin_ns = 5000;
/// Maximum time between two looks at signals.
static const int64_t slice_ns = 50000000;
/// Bit of a tag of the queue that tells of a change of a node.
static const uint64_t change_bit = UINT64_C(1) << 63;

enum { most_taken = 64 };

int64_t fcp_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/// Makes the descriptor of wake_fd() readable, and puts an element with the given tag into the
/// queue. Needs no GIL.
static void need(fcp_job* self, uint64_t tag) {
  const uint64_t one = 1;
  if (self->queue != NULL) fc_queue_signal(self->queue, tag);
  if (self->wake_fd >= 0) (void)!write(self->wake_fd, &one, sizeof one);
}

static void changed(const fc_node_event* event, void* job) {
  need(job, change_bit | (uint64_t)event->what << 32 | event->node.id);
}

static fcp_job* new_job(void) {
  fcp_job* const made = PyObject_New(fcp_job, job_type);
  if (made == NULL) return NULL;
  memset((char*)made + sizeof(PyObject), 0, sizeof *made - sizeof(PyObject));
  made->wake_fd = -1;
  made->forks = fcp_forks();
  return made;
}

static int open_store(fcp_job* self) {
  self->store = fcp_store_open(self->job);
  if (self->store != NULL) return 0;
  PyErr_NoMemory();
  return -1;
}

PyObject* fcp_start_job(const fc_job_options* options, bool is_spmd, PyObject* events) {
  fcp_job* const self = new_job();
  if (self == NULL) return NULL;
  Py_XINCREF(events);
  self->events = events;
  self->is_host = true;
  self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self->wake_fd < 0) {
    Py_DECREF(self);
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  fc_status status;
  Py_BEGIN_ALLOW_THREADS
  status = is_spmd ? fc_job_start_spmd(NULL, NULL, options, &self->job)
                   : fc_job_start(NULL, NULL, options, &self->job);
  if (status == FC_OK) status = fc_queue_open(self->job, &self->queue);
  if (status == FC_OK && !is_spmd) status = fc_on_node_change(self->job, &changed, self);
  Py_END_ALLOW_THREADS
  if (status == FC_OK && open_store(self) == 0) {
    if (is_spmd) fcp_serve_job(self);
    return (PyObject*)self;
  }
  fcp_raise(status);
  Py_DECREF(self);
  return NULL;
}

/// Job(): starts a job of this process without other nodes.
static PyObject* job_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)type;
  (void)keywords;
  const fc_job_options options = {.size = sizeof options, .targets = "none"};
  return PyArg_ParseTuple(arguments, "") ? fcp_start_job(&options, false, NULL) : NULL;
}

PyObject* fcp_job_of_worker(fc_job* job) {
  fcp_job* const self = new_job();
  if (self == NULL) return NULL;
  self->job = job;
  if (open_store(self) == 0) return (PyObject*)self;
  Py_DECREF(self);
  return NULL;
}

static void job_dealloc(PyObject* object) {
  fcp_job* const self = (fcp_job*)object;
  if (self->job != NULL) fcp_end_job(self);
  for (size_t i = 0; i < self->node_count; ++i) {
    if (self->nodes[i].notes != NULL) fc_unmap(self->nodes[i].notes);
  }
  fcp_store_free(self->store);
  free(self->nodes);
  if (self->wake_fd >= 0) close(self->wake_fd);
  Py_XDECREF(self->refusal);
  Py_XDECREF(self->explain);
  Py_XDECREF(self->before_wait);
  Py_XDECREF(self->after_wait);
  Py_XDECREF(self->events);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

bool fcp_is_job(PyObject* object) { return Py_TYPE(object) == job_type; }

bool fcp_has_ended(const fcp_job* self) {
  if (self->job != NULL) return false;
  PyErr_SetString(PyExc_RuntimeError, "the job has ended; make another one");
  return true;
}

static fcp_node* find_node(fcp_job* self, uint32_t id) {
  for (size_t i = 0; i < self->node_count; ++i) {
    if (self->nodes[i].node.id == id) return &self->nodes[i];
  }
  return NULL;
}

static int remember_node(fcp_job* self, fc_node node) {
  fcp_node* const nodes = realloc(self->nodes, (self->node_count + 1) * sizeof *nodes);
  if (nodes == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  self->nodes = nodes;
  nodes[self->node_count++] = (fcp_node){.node = node};
  return 0;
}

/// add(socket, replaces): adds the process at the other end of the socket as a node.
static PyObject* job_add(PyObject* object, PyObject* arguments) {
  fcp_job* const self = (fcp_job*)object;
  int socket = -1;
  unsigned replaces = FC_NO_NODE;
  if (!PyArg_ParseTuple(arguments, "i|I", &socket, &replaces) || fcp_has_ended(self)) return NULL;
  fc_node node;
  fc_status status;
  FCP_BEGIN_USE(self)
  status = fc_node_add_socket(self->job, socket, 1, replaces, &node);
  FCP_END_USE
  if (status != FC_OK) return fcp_raise(status);
  if (remember_node(self, node) != 0) return NULL;
  return PyLong_FromUnsignedLong(node.id);
}

/// meet(id): makes calls to a node possible that another process has added.
static PyObject* job_meet(PyObject* object, PyObject* id_object) {
  fcp_job* const self = (fcp_job*)object;
  const unsigned long id = PyLong_AsUnsignedLong(id_object);
  if (PyErr_Occurred() || fcp_has_ended(self)) return NULL;
  if (find_node(self, (uint32_t)id) == NULL) {
    fc_node node;
    const fc_status status = fc_node_at(self->job, (uint32_t)id, &node);
    if (status != FC_OK) return fcp_raise(status);
    if (remember_node(self, node) != 0) return NULL;
  }
  Py_RETURN_NONE;
}

/// choose(id, yes): says whether calls of a Function may go to the node.
static PyObject* job_choose(PyObject* object, PyObject* arguments) {
  fcp_job* const self = (fcp_job*)object;
  unsigned id = 0;
  int yes = 0;
  if (!PyArg_ParseTuple(arguments, "Ip", &id, &yes)) return NULL;
  fcp_node* const node = find_node(self, id);
  if (node == NULL) Py_RETURN_FALSE;
  node->chosen = yes != 0;
  node->ready = node->ready || yes != 0;
  return PyBool_FromLong(node->called);
}

/// forget(id): drops a node that has ended.
static PyObject* job_forget(PyObject* object, PyObject* id_object) {
  fcp_job* const self = (fcp_job*)object;
  const unsigned long id = PyLong_AsUnsignedLong(id_object);
  if (PyErr_Occurred()) return NULL;
  fcp_node* const node = find_node(self, (uint32_t)id);
  if (node != NULL) {
    if (node->notes != NULL) fc_unmap(node->notes);
    *node = self->nodes[--self->node_count];
  }
  fcp_store_collect(self->store);
  Py_RETURN_NONE;
}

/// track(id): lets a node note which calls have begun, for may_have_begun(). Returns False if the
/// node has not replied in time, or has ended.
static PyObject* job_track(PyObject* object, PyObject* id_object) {
  fcp_job* const self = (fcp_job*)object;
  const unsigned long id = PyLong_AsUnsignedLong(id_object);
  if (PyErr_Occurred() || fcp_has_ended(self)) return NULL;
  fcp_node* found = find_node(self, (uint32_t)id);
  if (found == NULL) Py_RETURN_TRUE;
  const fc_node node = found->node;
  fc_job* const job = self->job;
  void* notes = NULL;
  bool is_late = false;
  FCP_BEGIN_USE(self)
  notes = fcp_track(job, node);
  // A node that has ended must not get more calls, because all of them may seem to have begun.
  const fc_status why = notes == NULL ? fc_error_status() : FC_OK;
  is_late = why == FC_TIMEOUT || why == FC_NODE_FAILED;
  FCP_END_USE
  if (is_late) Py_RETURN_FALSE;
  found = find_node(self, (uint32_t)id);
  if (found != NULL) {
    found->notes = notes;
    found->tracked = true;
    found->untracked = fcp_last_number(self->express);
  } else if (notes != NULL) {
    fc_unmap(notes);
  }
  Py_RETURN_TRUE;
}

/// may_have_begun(id, number): False if the node has not begun the call with this number.
static PyObject* job_may_have_begun(PyObject* object, PyObject* arguments) {
  unsigned id = 0;
  unsigned long number = 0;
  if (!PyArg_ParseTuple(arguments, "Ik", &id, &number)) return NULL;
  const fcp_node* const node = find_node((fcp_job*)object, id);
  return PyBool_FromLong(node == NULL || number <= node->untracked ||
                         fcp_may_have_begun(node->notes, number));
}

/// remove(id): ends a node when its calls have ended.
static PyObject* job_remove(PyObject* object, PyObject* id_object) {
  fcp_job* const self = (fcp_job*)object;
  const unsigned long id = PyLong_AsUnsignedLong(id_object);
  fc_node node;
  if (PyErr_Occurred() || fcp_has_ended(self)) return NULL;
  fc_status status = fc_node_at(self->job, (uint32_t)id, &node);
  if (status == FC_OK) {
    FCP_BEGIN_USE(self)
    status = fc_node_remove(node);
    FCP_END_USE
  }
  if (status != FC_OK) return fcp_raise(status);
  Py_RETURN_NONE;
}

int fcp_node_at(PyObject* object, uint32_t id, fc_node* node) {
  if (!fcp_is_job(object)) {
    PyErr_SetString(PyExc_TypeError, "the argument must be a Job");
    return -1;
  }
  fcp_job* const self = (fcp_job*)object;
  if (fcp_has_ended(self)) return -1;
  const fc_status status = fc_node_at(self->job, id, node);
  if (status == FC_OK) return 0;
  fcp_raise(status);
  return -1;
}

/// alive(): the numbers of the nodes that are alive, without the host.
static PyObject* job_alive(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_job* const self = (fcp_job*)object;
  if (fcp_has_ended(self)) return NULL;
  PyObject* const list = PyList_New(0);
  const uint32_t size = fc_job_size(self->job);
  for (uint32_t place = 1; list != NULL && place < size; ++place) {
    fc_node node;
    if (fc_latest_node(self->job, place, &node) != FC_OK || !fc_node_alive(node)) continue;
    PyObject* const number = PyLong_FromUnsignedLong(node.id);
    const int done = number == NULL ? -1 : PyList_Append(list, number);
    Py_XDECREF(number);
    if (done != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

/// own(): the number of this process in the job.
static PyObject* job_own(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_job* const self = (fcp_job*)object;
  if (fcp_has_ended(self)) return NULL;
  fc_node node;
  const fc_status status = fc_this_node(self->job, &node);
  return status == FC_OK ? PyLong_FromUnsignedLong(node.id) : fcp_raise(status);
}

static fcp_node* least_busy(fcp_job* self) {
  fcp_node* best = NULL;
  for (size_t i = 0; i < self->node_count; ++i) {
    fcp_node* const each = &self->nodes[i];
    if (each->chosen && (best == NULL || each->busy < best->busy)) best = each;
  }
  return best;
}

static void count_call(fcp_node* node) {
  ++node->busy;
  node->called = node->called || node->ready;
}

int fcp_begin_call(fcp_job* self, uint32_t id, fc_node* node) {
  fcp_node* found;
  for (;;) {
    if (self->refusal != NULL) {
      fcp_raise_text("FC_NODE_FAILED", self->refusal);
      return -1;
    }
    if (fcp_has_ended(self)) return -1;
    found = id == FC_NO_NODE ? least_busy(self) : find_node(self, id);
    if (found != NULL) break;
    if (id != FC_NO_NODE) {
      PyObject* const text = PyUnicode_FromFormat("node %u has ended", (unsigned)id);
      if (text != NULL) fcp_raise_text("FC_NODE_FAILED", text);
      Py_XDECREF(text);
      return -1;
    }
    // A worker that has ended is being replaced.
    Py_BEGIN_ALLOW_THREADS
    usleep(1000);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals() != 0) return -1;
  }
  count_call(found);
  *node = found->node;
  return 0;
}

bool fcp_free_node(fcp_job* self, uint32_t most, fc_node* node) {
  const fcp_node* const found = least_busy(self);
  if (found == NULL || found->busy >= (found->tracked ? most : 1)) return false;
  *node = found->node;
  return true;
}

void fcp_count_call(fcp_job* self, uint32_t id) {
  fcp_node* const node = find_node(self, id);
  if (node != NULL) count_call(node);
}

void fcp_node_failed(fcp_job* self, uint32_t id) {
  fcp_node* const node = find_node(self, id);
  if (node != NULL) node->chosen = false;
  need(self, change_bit | (uint64_t)FC_CHANGE_FAILED << 32 | id);
}

void fcp_explain(fcp_job* self, uint32_t id, PyObject* name) {
  if (self->explain == NULL || name == NULL) return;
  PyObject* const error = fcp_take_exception();
  PyObject* const explained =
      PyObject_CallFunction(self->explain, "OIO", error, (unsigned)id, name);
  if (explained != NULL) PyErr_SetObject((PyObject*)Py_TYPE(explained), explained);
  Py_XDECREF(explained);
  Py_XDECREF(error);
}

void fcp_end_call(fcp_job* self, uint32_t id) {
  fcp_node* const node = find_node(self, id);
  if (node != NULL && node->busy > 0) --node->busy;
}

/// Calls a Python function without arguments, unless it is NULL. Meanwhile, the exception that
/// stops a call is not raised.
static int run_hook(PyObject* hook) {
  if (hook == NULL) return 0;
  Py_XDECREF(fcp_hold_stops(NULL, NULL));
  PyObject* const done = PyObject_CallNoArgs(hook);
  Py_XDECREF(done);
  Py_XDECREF(fcp_allow_stops(NULL, NULL));
  return done == NULL ? -1 : 0;
}

static int sleep_until_ready(fc_future* future) {
  for (;;) {
    fc_status status;
    Py_BEGIN_ALLOW_THREADS
    status = fc_future_wait(future, slice_ns);
    Py_END_ALLOW_THREADS
    if (status != FC_TIMEOUT) return 0;
    if (PyErr_CheckSignals() != 0) return -1;
  }
}

bool fcp_is_interrupted(void* state) {
  PyThreadState** const saved = state;
  PyEval_RestoreThread(*saved);
  const int done = PyErr_CheckSignals();
  *saved = PyEval_SaveThread();
  return done != 0;
}

/// Calls the hook after a wait, which has ended with `done`. The hook must run in any case.
static int end_wait(fcp_job* self, int done) {
  PyObject* type = NULL;
  PyObject* value = NULL;
  PyObject* traceback = NULL;
  if (self->after_wait == NULL) return done;
  PyErr_Fetch(&type, &value, &traceback);
  if (run_hook(self->after_wait) != 0) {
    // An exception that was on its way has ended the hook at its begin.
    if (type == NULL) PyErr_Fetch(&type, &value, &traceback);
    PyErr_Clear();
    if (run_hook(self->after_wait) != 0) PyErr_Clear();
    done = -1;
  }
  PyErr_Restore(type, value, traceback);
  return done;
}

int fcp_wait(fcp_job* self, fc_future* future) {
  if (run_hook(self->before_wait) != 0) return -1;
  int done = 0;
  int64_t end = 0;
  for (int i = 1; !fc_future_test(future); ++i) {
    if (i % 16 != 0) continue;
    const int64_t now = fcp_now_ns();
    if (end == 0) end = now + spin_ns;
    if (now < end) continue;
    done = sleep_until_ready(future);
    break;
  }
  return end_wait(self, done);
}

static PyObject* job_function(PyObject* object, PyObject* arguments) {
  return fcp_new_function((fcp_job*)object, arguments);
}

static int need_queue(fcp_job* self) {
  if (self->queue != NULL) return 0;
  const fc_status status = fc_queue_open(self->job, &self->queue);
  if (status == FC_OK) return 0;
  fcp_raise(status);
  return -1;
}

/// send(function, message, node, tag, may_block): sends a call, whose result comes out of take().
/// Returns False if the call was not sent, because this would block.
static PyObject* job_send(PyObject* object, PyObject* arguments) {
  fcp_job* const self = (fcp_job*)object;
  PyObject* function = NULL;
  PyObject* message = NULL;
  unsigned id = 0;
  unsigned long tag = 0;
  int may_block = 1;
  if (!PyArg_ParseTuple(arguments, "OOIk|p", &function, &message, &id, &tag, &may_block))
    return NULL;
  if (!fcp_is_function(function) || !fcp_is_message(message)) {
    PyErr_SetString(PyExc_TypeError, "send() takes a Function, a Message, and two numbers");
    return NULL;
  }
  fc_node node;
  if (fcp_has_ended(self) || need_queue(self) != 0 || fcp_begin_call(self, id, &node) != 0)
    return NULL;
  fc_future* future = NULL;
  fc_status status =
      fcp_send(function, message, node, tag & ~FCP_ASIDE_BIT, may_block != 0, &future);
  if (status == FC_OK) {
    status = fc_queue_add(self->queue, future, (uint64_t)id << 40 | tag);
    if (status != FC_OK) fc_future_drop(future);
  }
  if (status != FC_OK || (tag & FCP_ASIDE_BIT) != 0) fcp_end_call(self, id);
  if (status == FC_OK) Py_RETURN_TRUE;
  if (status == FC_WOULD_BLOCK) Py_RETURN_FALSE;
  return fcp_raise(status);
}

/// Takes from the queue with the GIL, for a short time unless `timeout_ns` is 0.
static fc_status take_at_once(fc_queue* queue, fc_completion* taken, size_t* count,
                              int64_t timeout_ns) {
  const int64_t most = timeout_ns >= 0 && timeout_ns < spin_ns ? timeout_ns : spin_ns;
  return fc_queue_take(queue, taken, most_taken, most, count);
}

/// Returns (tag, node, outcome, value) for a completion. The outcome is 0 for a result, 1 for an
/// exception, 2 if the worker has returned the call, 3 if it has stopped it, 4 if it does not know
/// the function, and 5 with an exception if it has ended.
PyObject* fcp_describe_completion(fcp_job* self, const fc_completion* completion) {
  if (completion->future == NULL) {
    const uint64_t tag = completion->tag & ~change_bit;
    return Py_BuildValue("(OkIO)", Py_None, (unsigned long)(tag & UINT32_MAX),
                         (unsigned)(tag >> 32), Py_None);
  }
  if (fcp_is_express_tag(completion->tag)) return fcp_complete(self, completion);
  const uint32_t node = (uint32_t)(completion->tag >> 40);
  if ((completion->tag & FCP_ASIDE_BIT) == 0) fcp_end_call(self, node);
  int outcome = 0;
  PyObject* const value = fcp_outcome_of(self, completion->future, node, &outcome);
  return Py_BuildValue("(kIiN)", (unsigned long)(completion->tag & ((UINT64_C(1) << 40) - 1)),
                       (unsigned)node, outcome, value);
}

/// take(timeout_ns, into): appends calls that have ended, and changes of nodes, to the list or
/// deque `into`. A call is (tag, node, outcome, result or exception), a change (None, node, what,
/// None). The elements are appended here, so that no exception of a signal handler can lose
/// them.
static PyObject* job_take(PyObject* object, PyObject* arguments) {
  fcp_job* const self = (fcp_job*)object;
  long long timeout_ns = 0;
  PyObject* append = NULL;
  if (!PyArg_ParseTuple(arguments, "LO", &timeout_ns, &append)) return NULL;
  if (fcp_has_ended(self) || need_queue(self) != 0) return NULL;
  fc_completion taken[most_taken];
  size_t count = 0;
  fc_queue* const queue = self->queue;
  fc_status status = take_at_once(queue, taken, &count, timeout_ns);
  if (status == FC_TIMEOUT && timeout_ns != 0) {
    Py_BEGIN_ALLOW_THREADS
    status = fc_queue_take(queue, taken, most_taken, timeout_ns, &count);
    Py_END_ALLOW_THREADS
  }
  if (status == FC_TIMEOUT) Py_RETURN_NONE;
  if (status != FC_OK) return fcp_raise(status);
  for (size_t i = 0; i < count; ++i) {
    PyObject* const each = fcp_describe_completion(self, &taken[i]);
    if (each == Py_None) {
      Py_DECREF(each);
      continue;
    }
    PyObject* const done = each == NULL ? NULL : PyObject_CallFunctionObjArgs(append, each, NULL);
    if (done == NULL) PyErr_WriteUnraisable(object);
    Py_XDECREF(done);
    Py_XDECREF(each);
  }
  Py_RETURN_NONE;
}

/// give_back(id): asks a worker to return calls that it has not begun.
static PyObject* job_give_back(PyObject* object, PyObject* id_object) {
  fcp_job* const self = (fcp_job*)object;
  const unsigned long id = PyLong_AsUnsignedLong(id_object);
  if (PyErr_Occurred() || fcp_has_ended(self)) return NULL;
  const fcp_node* const node = find_node(self, (uint32_t)id);
  if (node != NULL && fcp_ask_to_return(node->node) == FC_OK) ++self->asks;
  Py_RETURN_NONE;
}

/// asks(): how often give_back() was called.
static PyObject* job_asks(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong((unsigned long long)((fcp_job*)object)->asks);
}

/// stop(id, tag): asks a worker to stop a call. Returns False if the request was not sent, because
/// this would block.
static PyObject* job_stop(PyObject* object, PyObject* arguments) {
  fcp_job* const self = (fcp_job*)object;
  unsigned id = 0;
  unsigned long tag = 0;
  if (!PyArg_ParseTuple(arguments, "Ik", &id, &tag) || fcp_has_ended(self)) return NULL;
  const fcp_node* const node = find_node(self, id);
  if (node == NULL) Py_RETURN_TRUE;
  const fc_status status = fcp_ask_to_stop(node->node, tag & ~FCP_ASIDE_BIT);
  return PyBool_FromLong(status == FC_OK || status == FC_NODE_FAILED);
}

/// memory(node, size): memory for an array.
static PyObject* job_memory(PyObject* object, PyObject* arguments) {
  fcp_job* const self = (fcp_job*)object;
  return fcp_has_ended(self) ? NULL : fcp_job_memory(self, arguments);
}

/// blocks(): numbers and bytes of the blocks of this process in use, and of the free ones.
static PyObject* job_blocks(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_job* const self = (fcp_job*)object;
  uint64_t counts[4];
  if (fcp_has_ended(self)) return NULL;
  fcp_store_count(self->store, counts);
  return Py_BuildValue("(KKKK)", (unsigned long long)counts[0], (unsigned long long)counts[1],
                       (unsigned long long)counts[2], (unsigned long long)counts[3]);
}

/// need(): makes wake_fd() readable, and lets take() return.
static PyObject* job_need(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_job* const self = (fcp_job*)object;
  // Without the queue, a thread that is about to wait would not notice the signal.
  if (self->job != NULL && need_queue(self) != 0) return NULL;
  need(self, change_bit);
  Py_RETURN_NONE;
}

/// wake_fd(): a descriptor that is readable after need(), and after a change of a node that a
/// thread of farcall has noticed. A thread that waits for it does not make replies slower, as a
/// thread in take() does.
static PyObject* job_wake_fd(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyLong_FromLong(((fcp_job*)object)->wake_fd);
}

/// refuse(text): lets calls fail that wait for a node.
static PyObject* job_refuse(PyObject* object, PyObject* text) {
  fcp_job* const self = (fcp_job*)object;
  Py_INCREF(text);
  Py_XDECREF(self->refusal);
  self->refusal = text;
  Py_RETURN_NONE;
}

/// set_explain(explain): explain(error, node, name) returns the exception for a function whose
/// worker has ended.
static PyObject* job_set_explain(PyObject* object, PyObject* explain) {
  fcp_job* const self = (fcp_job*)object;
  PyObject* const old = self->explain;
  self->explain = NULL;
  if (explain != Py_None) {
    Py_INCREF(explain);
    self->explain = explain;
  }
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

/// set_hooks(before_wait, after_wait): functions that a call runs around its wait.
static PyObject* job_set_hooks(PyObject* object, PyObject* arguments) {
  fcp_job* const self = (fcp_job*)object;
  PyObject* before = NULL;
  PyObject* after = NULL;
  if (!PyArg_ParseTuple(arguments, "OO", &before, &after)) return NULL;
  Py_INCREF(before);
  Py_INCREF(after);
  Py_XDECREF(self->before_wait);
  Py_XDECREF(self->after_wait);
  self->before_wait = before;
  self->after_wait = after;
  Py_RETURN_NONE;
}

/// end(): ends the job. Calls that have not ended fail.
static PyObject* job_end(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_job* const self = (fcp_job*)object;
  if (self->job != NULL) fcp_end_job(self);
  Py_RETURN_NONE;
}

static PyMethodDef job_methods[] = {
    {"add", job_add, METH_VARARGS, NULL},
    {"meet", job_meet, METH_O, NULL},
    {"choose", job_choose, METH_VARARGS, NULL},
    {"forget", job_forget, METH_O, NULL},
    {"remove", job_remove, METH_O, NULL},
    {"track", job_track, METH_O, NULL},
    {"may_have_begun", job_may_have_begun, METH_VARARGS, NULL},
    {"alive", job_alive, METH_NOARGS, NULL},
    {"own", job_own, METH_NOARGS, NULL},
    {"function", job_function, METH_VARARGS, NULL},
    {"send", job_send, METH_VARARGS, NULL},
    {"take", job_take, METH_VARARGS, NULL},
    {"give_back", job_give_back, METH_O, NULL},
    {"asks", job_asks, METH_NOARGS, NULL},
    {"stop", job_stop, METH_VARARGS, NULL},
    {"set_explain", job_set_explain, METH_O, NULL},
    {"memory", job_memory, METH_VARARGS, NULL},
    {"blocks", job_blocks, METH_NOARGS, NULL},
    {"need", job_need, METH_NOARGS, NULL},
    {"wake_fd", job_wake_fd, METH_NOARGS, NULL},
    {"refuse", job_refuse, METH_O, NULL},
    {"set_hooks", job_set_hooks, METH_VARARGS, NULL},
    {"end", job_end, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot job_slots[] = {
    {Py_tp_doc, "Job of this process, whose nodes run Python functions."},
    {Py_tp_new, (void*)job_new},
    {Py_tp_dealloc, (void*)job_dealloc},
    {Py_tp_methods, job_methods},
    {0, NULL},
};

static PyType_Spec job_spec = {
    .name = "farcall._core.Job",
    .basicsize = sizeof(fcp_job),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = job_slots,
};

int fcp_add_job_type(PyObject* module) {
  job_type = (PyTypeObject*)PyType_FromSpec(&job_spec);
  return job_type == NULL ? -1 : PyModule_AddObjectRef(module, "Job", (PyObject*)job_type);
}
