// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <stdlib.h>

// The type Queue: calls of a job whose results are taken later, each with an object of the caller.

enum { most_taken = 64 };

/// A call whose result the queue contains later.
typedef struct fcp_pending {
  PyObject* token; ///< object of the caller
  void* call;
  PyObject* (*finish)(void* call, fc_future* future);
} fcp_pending;

typedef struct fcp_call_queue {
  PyObject ob_base;
  fcp_job* job;
  fc_queue* queue;
} fcp_call_queue;

static PyTypeObject* queue_type;

/// Queue(job): opens a queue.
static PyObject* queue_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)type;
  (void)keywords;
  PyObject* object = NULL;
  if (!PyArg_ParseTuple(arguments, "O", &object)) return NULL;
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_queue* queue = NULL;
  const fc_status status = fc_queue_open(job->job, &queue);
  if (status != FC_OK) return fcp_raise(status);
  fcp_call_queue* const self = PyObject_New(fcp_call_queue, queue_type);
  if (self == NULL) {
    fc_queue_close(queue);
    return NULL;
  }
  Py_INCREF(object);
  self->job = job;
  self->queue = queue;
  return (PyObject*)self;
}

static void queue_dealloc(PyObject* object) {
  fcp_call_queue* const self = (fcp_call_queue*)object;
  fc_queue_close(self->queue);
  Py_DECREF((PyObject*)self->job);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

/// Ends a call: releases what it has kept, and returns its result.
static PyObject* finish(fcp_pending* pending, fc_future* future) {
  PyObject* const result = pending->finish(pending->call, future);
  free(pending);
  return result;
}

int fcp_queue_add(PyObject* object, fc_future* future, PyObject* token, void* call,
                  PyObject* (*finish_call)(void* call, fc_future* future)) {
  fcp_call_queue* const self = (fcp_call_queue*)object;
  fcp_pending* const made = malloc(sizeof *made);
  fc_status status = FC_OUT_OF_MEMORY;
  if (made != NULL) {
    *made = (fcp_pending){token, call, finish_call};
    status = fc_queue_add(self->queue, future, (uint64_t)(uintptr_t)made);
  }
  if (status == FC_OK) {
    Py_INCREF(token);
    return 0;
  }
  if (made == NULL) {
    PyErr_NoMemory();
  } else {
    fcp_raise(status);
  }
  free(made);
  finish_call(call, NULL);
  fc_future_drop(future);
  return -1;
}

/// A call of a Python function.
typedef struct python_call {
  fcp_job* job;
  uint32_t node;
  PyObject* message; ///< owns blocks that the worker reads until the call has ended
} python_call;

static PyObject* finish_python(void* data, fc_future* future) {
  const python_call call = *(python_call*)data;
  free(data);
  fcp_end_call(call.job, call.node);
  PyObject* result = NULL;
  if (future != NULL) {
    fc_status status = FC_OK;
    enum fcp_kind kind = FCP_PLAIN;
    result = fcp_finish_call(call.job, future, call.node, &status, &kind);
    if (result == NULL && !PyErr_Occurred())
      PyErr_SetString(PyExc_RuntimeError, "the node has returned the call");
  }
  Py_DECREF(call.message);
  Py_DECREF((PyObject*)call.job);
  return result;
}

/// send(function, message, node, token): sends a call of a Function.
static PyObject* queue_send(PyObject* object, PyObject* arguments) {
  fcp_call_queue* const self = (fcp_call_queue*)object;
  PyObject* function = NULL;
  PyObject* message = NULL;
  PyObject* token = NULL;
  unsigned id = 0;
  if (!PyArg_ParseTuple(arguments, "OOIO", &function, &message, &id, &token)) return NULL;
  if (!fcp_is_function(function) || !fcp_is_message(message)) {
    PyErr_SetString(PyExc_TypeError, "send() takes a Function, a Message, a number and an object");
    return NULL;
  }
  fc_node node;
  if (fcp_has_ended(self->job) || fcp_begin_call(self->job, id, &node) != 0) return NULL;
  fcp_use_lane();
  fc_future* future = NULL;
  python_call* const call = malloc(sizeof *call);
  const fc_status status =
      call == NULL ? FC_OUT_OF_MEMORY : fcp_send(function, message, node, 0, true, &future);
  if (status != FC_OK) {
    free(call);
    fcp_end_call(self->job, id);
    return call == NULL ? PyErr_NoMemory() : fcp_raise(status);
  }
  Py_INCREF((PyObject*)self->job);
  Py_INCREF(message);
  *call = (python_call){self->job, id, message};
  if (fcp_queue_add(object, future, token, call, &finish_python) != 0) return NULL;
  Py_RETURN_NONE;
}

/// Appends (token, has failed, result or exception).
static void append_completion(PyObject* append, const fc_completion* completion) {
  fcp_pending* const pending = (fcp_pending*)(uintptr_t)completion->tag;
  if (completion->future == NULL) return;
  PyObject* const token = pending->token;
  PyObject* value = finish(pending, completion->future);
  const int has_failed = value == NULL;
  if (has_failed) value = fcp_take_exception();
  PyObject* const each = Py_BuildValue("(NiN)", token, has_failed, value);
  PyObject* const done = each == NULL ? NULL : PyObject_CallFunctionObjArgs(append, each, NULL);
  if (done == NULL) PyErr_WriteUnraisable(append);
  Py_XDECREF(done);
  Py_XDECREF(each);
}

/// take(timeout_ns, append): passes calls that have ended to append(). Waits for the first one.
static PyObject* queue_take(PyObject* object, PyObject* arguments) {
  static const int64_t spin_ns = 5000;
  fcp_call_queue* const self = (fcp_call_queue*)object;
  long long timeout_ns = 0;
  PyObject* append = NULL;
  if (!PyArg_ParseTuple(arguments, "LO", &timeout_ns, &append) || fcp_has_ended(self->job))
    return NULL;
  fc_completion taken[most_taken];
  size_t count = 0;
  fc_status status =
      fc_queue_take(self->queue, taken, most_taken, timeout_ns == 0 ? 0 : spin_ns, &count);
  if (status == FC_TIMEOUT && timeout_ns != 0) {
    Py_BEGIN_ALLOW_THREADS
    status = fc_queue_take(self->queue, taken, most_taken, timeout_ns, &count);
    Py_END_ALLOW_THREADS
  }
  if (status == FC_TIMEOUT) Py_RETURN_NONE;
  if (status != FC_OK) return fcp_raise(status);
  for (size_t i = 0; i < count; ++i)
    append_completion(append, &taken[i]);
  Py_RETURN_NONE;
}

/// take_rest(append): like take(0, append), after the end of the job.
static PyObject* queue_take_rest(PyObject* object, PyObject* append) {
  fcp_call_queue* const self = (fcp_call_queue*)object;
  fc_completion taken[most_taken];
  size_t count = 0;
  while (fc_queue_take(self->queue, taken, most_taken, 0, &count) == FC_OK) {
    for (size_t i = 0; i < count; ++i)
      append_completion(append, &taken[i]);
  }
  Py_RETURN_NONE;
}

/// wake(): lets a thread in take() return.
static PyObject* queue_wake(PyObject* object, PyObject* unused) {
  (void)unused;
  fc_queue_signal(((fcp_call_queue*)object)->queue, 0);
  Py_RETURN_NONE;
}

static PyMethodDef queue_methods[] = {
    {"send", queue_send, METH_VARARGS, NULL},
    {"take", queue_take, METH_VARARGS, NULL},
    {"take_rest", queue_take_rest, METH_O, NULL},
    {"wake", queue_wake, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot queue_slots[] = {
    {Py_tp_doc, "Calls of a job that were sent, and whose results are taken later."},
    {Py_tp_new, (void*)queue_new},
    {Py_tp_dealloc, (void*)queue_dealloc},
    {Py_tp_methods, queue_methods},
    {0, NULL},
};

static PyType_Spec queue_spec = {
    .name = "farcall._core.Queue",
    .basicsize = sizeof(fcp_call_queue),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = queue_slots,
};

int fcp_add_queue_type(PyObject* module) {
  queue_type = (PyTypeObject*)PyType_FromSpec(&queue_spec);
  return queue_type == NULL ? -1 : PyModule_AddObjectRef(module, "Queue", (PyObject*)queue_type);
}

bool fcp_is_queue(PyObject* object) { return Py_TYPE(object) == queue_type; }
