// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <stdlib.h>
#include <string.h>

// The types Function and Message.

/// Function with a number, which is called on nodes of a job.
typedef struct fcp_function_object {
  PyObject ob_base;
  fcp_job* job;
  uint64_t number;
  PyObject* definition; ///< bytes
  unsigned char* known; ///< for each node, 1 if it has the definition
  size_t known_count;
  uint32_t node;     ///< node that calls go to, or FC_NO_NODE for any
  PyObject* explain; ///< explain(exception) returns the exception that a call raises; or NULL
  struct fcp_function_object* origin; ///< function of owned_by(), whose `known` is used, or NULL
  PyObject* owner;                    ///< object that the function keeps alive, or NULL
  PyObject* name;                     ///< for errors, or NULL
} fcp_function_object;

/// Message of a call that was not sent yet.
typedef struct fcp_message_object {
  PyObject ob_base;
  fcp_message message;
  bool is_made;
} fcp_message_object;

enum {
  /// Number of times that workers may refuse a call because they do not know the function, or
  /// return it unasked.
  most_refusals = 1000,
  /// Limit for requests of the host that workers return calls. A worker cannot count these
  /// requests.
  most_asks = 1000000
};

static PyTypeObject* function_type;
static PyTypeObject* message_type;

static const char run_name[] = "farcall.python.run";

fc_function fcp_run_function(void) {
  static fc_function number;
  if (number == 0) number = fc_named(run_name);
  return number;
}

bool fcp_is_function(PyObject* object) {
  return PyType_IsSubtype(Py_TYPE(object), function_type) != 0;
}
bool fcp_is_message(PyObject* object) { return Py_TYPE(object) == message_type; }

static fcp_function_object* new_function(PyTypeObject* type, fcp_job* job, uint64_t number,
                                         PyObject* definition) {
  const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  fcp_function_object* const self = (fcp_function_object*)allocate(type, 0);
  if (self == NULL) return NULL;
  Py_INCREF((PyObject*)job);
  Py_INCREF(definition);
  self->job = job;
  self->number = number;
  self->definition = definition;
  self->node = FC_NO_NODE;
  return self;
}

PyObject* fcp_new_function(fcp_job* job, PyObject* arguments) {
  unsigned long long number = 0;
  PyObject* definition = NULL;
  if (!PyArg_ParseTuple(arguments, "KS", &number, &definition)) return NULL;
  return (PyObject*)new_function(function_type, job, number, definition);
}

/// Function(job, number, definition, node, explain): a function for one node, or for any node if
/// `node` is None.
static PyObject* function_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  PyObject* job = NULL;
  unsigned long long number = 0;
  PyObject* definition = NULL;
  PyObject* node = Py_None;
  PyObject* explain = Py_None;
  if (!PyArg_ParseTuple(arguments, "OKS|OO", &job, &number, &definition, &node, &explain))
    return NULL;
  if (!fcp_is_job(job)) {
    PyErr_SetString(PyExc_TypeError, "the first argument must be a Job");
    return NULL;
  }
  const unsigned long id = node == Py_None ? FC_NO_NODE : PyLong_AsUnsignedLong(node);
  if (PyErr_Occurred()) return NULL;
  fcp_function_object* const self = new_function(type, (fcp_job*)job, number, definition);
  if (self == NULL) return NULL;
  self->node = (uint32_t)id;
  if (explain != Py_None) {
    Py_INCREF(explain);
    self->explain = explain;
  }
  return (PyObject*)self;
}

/// owned_by(owner, name): the same function, which keeps the owner alive.
static PyObject* function_owned_by(PyObject* object, PyObject* arguments) {
  fcp_function_object* const self = (fcp_function_object*)object;
  PyObject* owner = NULL;
  PyObject* name = NULL;
  if (!PyArg_ParseTuple(arguments, "OU", &owner, &name)) return NULL;
  fcp_function_object* const made =
      new_function(Py_TYPE(object), self->job, self->number, self->definition);
  if (made == NULL) return NULL;
  Py_INCREF(object);
  Py_INCREF(owner);
  Py_INCREF(name);
  made->origin = self;
  made->owner = owner;
  made->name = name;
  return (PyObject*)made;
}

static void function_dealloc(PyObject* object) {
  fcp_function_object* const self = (fcp_function_object*)object;
  Py_DECREF((PyObject*)self->job);
  Py_DECREF(self->definition);
  Py_XDECREF(self->explain);
  free(self->known);
  Py_XDECREF((PyObject*)self->origin);
  Py_XDECREF(self->owner);
  Py_XDECREF(self->name);
  PyTypeObject* const type = Py_TYPE(object);
  // Objects of subclasses have a head of the garbage collector.
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

/// Notes that the node has the definition. If memory is missing, it is sent again next time.
static void mark_known(fcp_function_object* self, uint32_t id) {
  if (id >= self->known_count) {
    const size_t count = (size_t)id + 8;
    unsigned char* const known = realloc(self->known, count);
    if (known == NULL) return;
    memset(known + self->known_count, 0, count - self->known_count);
    self->known = known;
    self->known_count = count;
  }
  self->known[id] = 1;
}

/// Sends the definition of the function to the node, unless the node has it. If `may_block` is
/// false, may return FC_WOULD_BLOCK, and does not wait until the node has the definition; later
/// calls of this thread find it there.
static fc_status define(fcp_function_object* self, fc_node node, bool may_block) {
  if (self->origin != NULL) self = self->origin;
  if (node.id < self->known_count && self->known[node.id]) return FC_OK;
  char* bytes = NULL;
  Py_ssize_t size = 0;
  // Cannot fail, because fcp_new_function() has checked the type.
  PyBytes_AsStringAndSize(self->definition, &bytes, &size);
  const fc_bytes parts[2] = {{&self->number, sizeof self->number}, {bytes, (size_t)size}};
  fc_future* future = NULL;
  fc_status status = FC_OK;
  if (may_block) {
    FCP_BEGIN_USE(self->job)
    status = fc_callv(node, fcp_define_function(), parts, 2, &future);
    FCP_END_USE
  } else {
    status = fc_try_call_async(node, fcp_define_function(), parts, 2, &future);
  }
  if (status != FC_OK) return status;
  fc_future_drop(future);
  mark_known(self, node.id);
  return FC_OK;
}

/// Sends the definition again before the next call to the node.
static void mark_unknown(fcp_function_object* self, uint32_t id) {
  if (self->origin != NULL) self = self->origin;
  if (id < self->known_count) self->known[id] = 0;
}

/// unknown_to(id): sends the definition again before the next call to the node.
static PyObject* function_unknown_to(PyObject* object, PyObject* id_object) {
  const unsigned long id = PyLong_AsUnsignedLong(id_object);
  if (PyErr_Occurred()) return NULL;
  mark_unknown((fcp_function_object*)object, (uint32_t)id);
  Py_RETURN_NONE;
}

/// Sends the call to the node. If this returns FC_NODE_FAILED or FC_WOULD_BLOCK, the call has not
/// run.
static fc_status send_call(fcp_function_object* self, fc_node node, fcp_message* m, bool may_block,
                           fc_future** future) {
  fc_status status = define(self, node, may_block);
  if (status == FC_OK) status = fcp_message_lend(m, self->job, node.id);
  if (status != FC_OK) return status;
  status = fc_try_call_async(node, fcp_run_function(), m->parts, m->part_count, future);
  if (status == FC_WOULD_BLOCK && may_block) {
    FCP_BEGIN_USE(self->job)
    status = fc_call_asyncv(node, fcp_run_function(), m->parts, m->part_count, future);
    FCP_END_USE
  }
  if (status != FC_OK) fcp_message_take_back(m);
  return status;
}

/// Sends the call to the node with the fewest calls. Tries other nodes as long as nodes have
/// failed.
static fc_future* send_to_any(fcp_function_object* self, fcp_message* m, uint32_t* id) {
  for (;;) {
    fc_node node;
    if (fcp_begin_call(self->job, FC_NO_NODE, &node) != 0) return NULL;
    fc_future* future = NULL;
    const fc_status status = send_call(self, node, m, true, &future);
    *id = node.id;
    if (status == FC_OK) return future;
    fcp_end_call(self->job, node.id);
    if (status != FC_NODE_FAILED) {
      fcp_raise(status);
      return NULL;
    }
    fcp_node_failed(self->job, node.id);
  }
}

/// Sends the call to the node of the function.
static fc_future* send_to_own(fcp_function_object* self, fcp_message* m, uint32_t* id) {
  fc_node node;
  if (fcp_begin_call(self->job, self->node, &node) != 0) return NULL;
  *id = node.id;
  fc_future* future = NULL;
  const fc_status status = send_call(self, node, m, true, &future);
  if (status == FC_OK) return future;
  fcp_end_call(self->job, node.id);
  fcp_raise(status);
  if (status == FC_NODE_FAILED) fcp_node_failed(self->job, node.id);
  return NULL;
}

/// Replaces the pending exception by the exception that the function's `explain` returns.
static void explain_exception(fcp_function_object* self) {
  PyObject* const exception = fcp_take_exception();
  if (exception == NULL) return;
  PyObject* const explained = PyObject_CallFunctionObjArgs(self->explain, exception, NULL);
  Py_DECREF(exception);
  if (explained == NULL) return;
  PyErr_SetObject((PyObject*)Py_TYPE(explained), explained);
  Py_DECREF(explained);
}

/// Calls the function, and waits for the result. Returns NULL without an exception if the worker
/// has not run the call; `*kind` then says why.
static PyObject* call_once(fcp_function_object* self, fcp_message* m, enum fcp_kind* kind) {
  uint32_t id = 0;
  PyObject* result = NULL;
  fc_future* const future =
      self->node == FC_NO_NODE ? send_to_any(self, m, &id) : send_to_own(self, m, &id);
  if (future == NULL) return NULL;
  if (fcp_wait(self->job, future) != 0) {
    fcp_abandon_call(self->job, future);
  } else {
    fc_status status = FC_OK;
    result = fcp_finish_call(self->job, future, id, &status, kind);
    if (*kind == FCP_UNDEFINED) mark_unknown(self, id);
    if (status == FC_NODE_FAILED) {
      fcp_node_failed(self->job, id);
      fcp_explain(self->job, id, self->name);
    }
  }
  fcp_end_call(self->job, id);
  return result;
}

/// Calls the function until a worker has run the call. Gives up if workers refuse it too often.
static PyObject* call_until_run(fcp_function_object* self, fcp_message* m) {
  const fcp_job* const job = self->job;
  const uint64_t asked = job->is_host ? job->asks : 0;
  for (uint64_t refusals = 0;; ++refusals) {
    const uint64_t asks = job->is_host ? job->asks - asked : most_asks;
    if (refusals >= most_refusals + asks) break;
    enum fcp_kind kind = FCP_PLAIN;
    PyObject* const result = call_once(self, m, &kind);
    if (result != NULL || PyErr_Occurred() || PyErr_CheckSignals() != 0) return result;
    if (kind == FCP_STOPPED) break; // nobody can stop the call
  }
  PyErr_SetString(PyExc_RuntimeError, "a worker is broken: it refuses a call again and again");
  return NULL;
}

static PyObject* function_call(PyObject* object, PyObject* arguments, PyObject* keywords) {
  fcp_function_object* const self = (fcp_function_object*)object;
  fcp_message m;
  PyObject* result = NULL;
  if (fcp_message_of_call(&m, self->number, arguments, keywords) == 0)
    result = call_until_run(self, &m);
  fcp_message_clear(&m);
  if (result == NULL && self->explain != NULL) explain_exception(self);
  return result;
}

fc_status fcp_send(PyObject* function, PyObject* message, fc_node node, uint64_t call,
                   bool may_block, fc_future** future) {
  fcp_message* const m = &((fcp_message_object*)message)->message;
  fcp_number_call(m, call);
  return send_call((fcp_function_object*)function, node, m, may_block, future);
}

const fcp_message* fcp_message_in(PyObject* object) {
  return &((fcp_message_object*)object)->message;
}

PyObject* fcp_loaded(PyObject* object) {
  const fcp_function_object* const self = (fcp_function_object*)object;
  PyObject* const found = fcp_function(self->number);
  if (found != NULL || PyErr_Occurred()) return found;
  char* bytes = NULL;
  Py_ssize_t size = 0;
  PyBytes_AsStringAndSize(self->definition, &bytes, &size);
  return fcp_define(self->number, bytes, (size_t)size) == 0 ? fcp_function(self->number) : NULL;
}

PyObject* fcp_encode(PyObject* function, PyObject* arguments, PyObject* keywords, bool* is_plain) {
  fcp_message_object* const made = PyObject_New(fcp_message_object, message_type);
  if (made == NULL) return NULL;
  fcp_message* const m = &made->message;
  const uint64_t number = ((fcp_function_object*)function)->number;
  const int done = fcp_message_of_call(m, number, arguments, keywords);
  *is_plain = m->pickled == NULL && !m->has_large;
  if (done == 0) return (PyObject*)made;
  Py_DECREF(made);
  return NULL;
}

/// encode(arguments, keywords): the message of a call, for Job.send().
static PyObject* function_encode(PyObject* object, PyObject* arguments) {
  PyObject* positional = NULL;
  PyObject* keywords = NULL;
  if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &positional, &keywords)) return NULL;
  bool is_plain = false;
  return fcp_encode(object, positional, keywords, &is_plain);
}

static void message_dealloc(PyObject* object) {
  fcp_message_clear(&((fcp_message_object*)object)->message);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyMethodDef function_methods[] = {
    {"encode", function_encode, METH_VARARGS, NULL},
    {"owned_by", function_owned_by, METH_VARARGS, NULL},
    {"unknown_to", function_unknown_to, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot function_slots[] = {
    {Py_tp_doc, "Function that workers know by a number."},
    {Py_tp_new, (void*)function_new},
    {Py_tp_call, (void*)function_call},
    {Py_tp_dealloc, (void*)function_dealloc},
    {Py_tp_methods, function_methods},
    {0, NULL},
};

static PyType_Spec function_spec = {
    .name = "farcall._core.Function",
    .basicsize = sizeof(fcp_function_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = function_slots,
};

static PyType_Slot message_slots[] = {
    {Py_tp_doc, "Message of a call that was not sent yet."},
    {Py_tp_dealloc, (void*)message_dealloc},
    {0, NULL},
};

static PyType_Spec message_spec = {
    .name = "farcall._core.Message",
    .basicsize = sizeof(fcp_message_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = message_slots,
};

int fcp_add_function_types(PyObject* module) {
  function_type = (PyTypeObject*)PyType_FromSpec(&function_spec);
  message_type = (PyTypeObject*)PyType_FromSpec(&message_spec);
  if (function_type == NULL || message_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "Function", (PyObject*)function_type);
}
