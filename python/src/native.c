// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <structmember.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The type Native: a function in C on a node, which is either a function of a shared library, or a
// handler with a name.

// CPython 3.11 has these, but its headers show them to extensions for 3.12 and later only.
#if Py_LIMITED_API < 0x030C0000
typedef PyObject* (*vectorcallfunc)(PyObject* callable, PyObject* const* arguments, size_t count,
                                    PyObject* names);
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
static const size_t count_mask = ~((size_t)1 << (8 * sizeof(size_t) - 1));

typedef struct fcp_native {
  PyObject ob_base;
  vectorcallfunc call;
  fcp_job* job;
  fc_node node;
  int64_t timeout_ns; ///< negative for none
  bool is_handler;
  fc_native function;
  fc_function handler;
  fcp_signature signature;
  PyObject* name;
  PyObject* owner; ///< its method submit_native(function, arguments) makes a future
} fcp_native;

static PyTypeObject* native_type;

/// Time for which a call waits with the GIL, and longest time between two looks at signals.
static const int64_t spin_ns = 5000;
static const int64_t slice_ns = 50000000;
/// Longer buffers are copied without the GIL.
static const size_t most_bytes_at_once = 8192;

/// The lane of this thread in which all calls have ended, so that the next one does not wait for
/// space.
static _Thread_local struct {
  fc_job* job;
  uint32_t node;
} empty_lane;

void fcp_use_lane(void) { empty_lane.job = NULL; }

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// ---- libraries ----------------------------------------------------------------------------------

static fc_node within(fc_node node, int64_t timeout_ns) {
  return timeout_ns < 0 ? node : fc_within(node, timeout_ns);
}

PyObject* fcp_load_library(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  unsigned id = 0;
  const char* path = NULL;
  long long timeout_ns = 0;
  fc_node node;
  if (!PyArg_ParseTuple(arguments, "OIsL", &object, &id, &path, &timeout_ns) ||
      fcp_node_at(object, id, &node) != 0)
    return NULL;
  fc_library library;
  fc_status status;
  FCP_BEGIN_USE((fcp_job*)object)
  status = fc_library_load(within(node, timeout_ns), path, &library);
  FCP_END_USE
  return status == FC_OK ? PyLong_FromUnsignedLongLong(library.id) : fcp_raise(status);
}

PyObject* fcp_unload_library(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  unsigned id = 0;
  unsigned long long number = 0;
  fc_library library;
  if (!PyArg_ParseTuple(arguments, "OIK", &object, &id, &number) ||
      fcp_node_at(object, id, &library.node) != 0)
    return NULL;
  library.id = number;
  fc_status status;
  FCP_BEGIN_USE((fcp_job*)object)
  status = fc_library_unload(library);
  FCP_END_USE
  if (status != FC_OK) return fcp_raise(status);
  Py_RETURN_NONE;
}

PyObject* fcp_last_errno(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyLong_FromLong(fc_native_errno());
}

// ---- calls --------------------------------------------------------------------------------------

/// Sends a call without waiting for its result.
static fc_status send_to_library(const fcp_native* self, const fcp_values* v, bool may_wait,
                                 fc_future** future) {
  const fc_node to = within(self->node, self->timeout_ns);
  if (!may_wait && v->buffer_bytes <= most_bytes_at_once)
    return fc_native_call_async(to, self->function, v->values, future);
  fc_status status;
  FCP_BEGIN_USE(self->job)
  status = fc_native_call_async(to, self->function, v->values, future);
  FCP_END_USE
  return status;
}

/// Sets an exception if it returns FC_ERROR with one.
static fc_status send_to_handler(const fcp_native* self, const fcp_values* v, fc_future** future) {
  const fc_node to = within(self->node, self->timeout_ns);
  fcp_bytes message;
  fcp_bytes_init(&message);
  fc_status status = FC_ERROR;
  if (fcp_pack(&message, &self->signature, v) == 0) {
    const fc_bytes part = {message.data, message.size};
    status = fc_try_call_async(to, self->handler, &part, 1, future);
    if (status == FC_WOULD_BLOCK) {
      FCP_BEGIN_USE(self->job)
      status = fc_call_asyncv(to, self->handler, &part, 1, future);
      FCP_END_USE
    }
  }
  fcp_bytes_clear(&message);
  return status;
}

static fc_future* start(const fcp_native* self, const fcp_values* v, bool may_wait) {
  fc_future* future = NULL;
  if (fcp_has_ended(self->job)) return NULL;
  const fc_status status = self->is_handler ? send_to_handler(self, v, &future)
                                            : send_to_library(self, v, may_wait, &future);
  if (status == FC_OK) return future;
  if (!PyErr_Occurred()) fcp_raise(status);
  return NULL;
}

/// Returns the result of a call that has ended, and drops the future.
static PyObject* result_of(const fcp_native* self, const fcp_values* v, fc_future* future) {
  PyObject* result = NULL;
  fc_status status;
  if (self->is_handler) {
    const void* bytes = NULL;
    size_t size = 0;
    status = fc_future_get(future, &bytes, &size);
    if (status == FC_OK) result = fcp_unpack(&self->signature, bytes, size, self->name);
  } else {
    fc_value value = {.Q = 0};
    if (v->buffer_bytes > most_bytes_at_once) {
      Py_BEGIN_ALLOW_THREADS
      status = fc_native_get(future, self->function, v->values, &value);
      Py_END_ALLOW_THREADS
    } else {
      status = fc_native_get(future, self->function, v->values, &value);
    }
    if (status == FC_OK) result = fcp_object_of(self->signature.results[0], &value);
  }
  if (status != FC_OK) fcp_raise(status);
  fc_future_drop(future);
  return result;
}

/// Waits until the future is ready, or its deadline has passed. Returns -1 after a signal whose
/// handler has raised an exception.
static int wait_for(fcp_job* job, fc_future* future, int64_t timeout_ns) {
  if (timeout_ns < 0) return fcp_wait(job, future);
  const int64_t begin = now_ns();
  while (!fc_future_test(future)) {
    const int64_t waited = now_ns() - begin;
    if (waited < spin_ns) continue;
    int64_t slice = timeout_ns - waited;
    if (slice < 0) slice = 0;
    Py_BEGIN_ALLOW_THREADS(void)
    fc_future_wait(future, slice < slice_ns ? slice : slice_ns);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals() != 0) return -1;
  }
  return 0;
}

static PyObject* call(fcp_native* self, const fcp_values* v) {
  fc_job* const handle = self->node.job;
  const bool may_wait = empty_lane.job != handle || empty_lane.node != self->node.id;
  fc_future* const future = start(self, v, may_wait);
  if (future == NULL) return NULL;
  if (wait_for(self->job, future, self->timeout_ns) != 0) {
    fc_future_drop(future);
    return NULL;
  }
  PyObject* const result = result_of(self, v, future);
  if (may_wait && result != NULL) {
    empty_lane.job = handle;
    empty_lane.node = self->node.id;
  }
  return result;
}

static PyObject* native_call(PyObject* object, PyObject* const* arguments, size_t count,
                             PyObject* names) {
  fcp_native* const self = (fcp_native*)object;
  if (names != NULL && PyTuple_Size(names) != 0) {
    PyErr_Format(PyExc_TypeError, "%U() takes no keyword arguments", self->name);
    return NULL;
  }
  fcp_values v;
  if (fcp_values_of(&v, &self->signature, arguments, count & count_mask, self->name) != 0)
    return NULL;
  PyObject* const result = call(self, &v);
  fcp_values_clear(&v);
  return result;
}

enum { most_objects = 128 };

/// Copies a tuple of arguments to an array of borrowed objects. Returns their number, which may be
/// larger than the array; then the call fails.
static size_t objects_of(PyObject* tuple, PyObject** objects) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  for (Py_ssize_t i = 0; i < count && i < most_objects; ++i)
    objects[i] = PyTuple_GetItem(tuple, i);
  return (size_t)count;
}

/// Call with a tuple of arguments.
static PyObject* native_call_tuple(PyObject* object, PyObject* arguments, PyObject* keywords) {
  PyObject* objects[most_objects];
  if (keywords == NULL || PyDict_Size(keywords) == 0)
    return native_call(object, objects, objects_of(arguments, objects), NULL);
  PyErr_Format(PyExc_TypeError, "%U() takes no keyword arguments", ((fcp_native*)object)->name);
  return NULL;
}

// ---- calls whose results a Queue takes
// ------------------------------------------------------------

/// A call that was sent, with its arguments, whose buffers stay until the call has ended.
typedef struct sent_call {
  fcp_native* function;
  fcp_values values;
} sent_call;

static PyObject* finish(void* data, fc_future* future) {
  sent_call* const sent = data;
  PyObject* const result = future == NULL ? NULL : result_of(sent->function, &sent->values, future);
  PyObject* type = NULL;
  PyObject* value = NULL;
  PyObject* traceback = NULL;
  PyErr_Fetch(&type, &value, &traceback);
  fcp_values_clear(&sent->values);
  Py_DECREF((PyObject*)sent->function);
  free(sent);
  PyErr_Restore(type, value, traceback);
  return result;
}

/// send(queue, arguments, token): sends a call, whose result comes out of the queue.
static PyObject* native_send(PyObject* object, PyObject* arguments) {
  fcp_native* const self = (fcp_native*)object;
  PyObject* queue = NULL;
  PyObject* tuple = NULL;
  PyObject* token = NULL;
  if (!PyArg_ParseTuple(arguments, "OO!O", &queue, &PyTuple_Type, &tuple, &token)) return NULL;
  if (!fcp_is_queue(queue)) {
    PyErr_SetString(PyExc_TypeError, "send() takes a Queue");
    return NULL;
  }
  PyObject* objects[most_objects];
  const size_t count = objects_of(tuple, objects);
  sent_call* const sent = malloc(sizeof *sent);
  if (sent == NULL) return PyErr_NoMemory();
  if (fcp_values_of(&sent->values, &self->signature, objects, count, self->name) != 0) {
    free(sent);
    return NULL;
  }
  fcp_use_lane();
  fc_future* const future = start(self, &sent->values, true);
  if (future == NULL) {
    fcp_values_clear(&sent->values);
    free(sent);
    return NULL;
  }
  Py_INCREF(object);
  sent->function = self;
  if (fcp_queue_add(queue, future, token, sent, &finish) != 0) return NULL;
  Py_RETURN_NONE;
}

// ---- the type -----------------------------------------------------------------------------------

static int look_up(fcp_native* self, unsigned long long library, const char* name,
                   const char* signature) {
  const fc_library there = {within(self->node, self->timeout_ns), library};
  fc_status status;
  FCP_BEGIN_USE(self->job)
  status = fc_symbol(there, name, signature, &self->function);
  FCP_END_USE
  if (status == FC_OK) return 0;
  fcp_raise(status);
  return -1;
}

static int name_handler(fcp_native* self, const char* name) {
  self->handler = fc_named(name);
  if (self->handler != 0) return 0;
  fcp_raise(fc_error_status());
  return -1;
}

/// Native(job, node, library, name, signature, timeout_ns, owner): a function of a library with a
/// number, or a handler if `library` is None.
static PyObject* native_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)type;
  (void)keywords;
  PyObject* object = NULL;
  PyObject* library = NULL;
  PyObject* owner = NULL;
  const char* name = NULL;
  const char* signature = NULL;
  unsigned id = 0;
  long long timeout_ns = -1;
  fc_node node;
  if (!PyArg_ParseTuple(arguments, "OIOssLO", &object, &id, &library, &name, &signature,
                        &timeout_ns, &owner) ||
      fcp_node_at(object, id, &node) != 0)
    return NULL;
  fcp_native* const self = PyObject_New(fcp_native, native_type);
  if (self == NULL) return NULL;
  memset((char*)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
  Py_INCREF(object);
  Py_INCREF(owner);
  self->owner = owner;
  self->call = &native_call;
  self->job = (fcp_job*)object;
  self->node = node;
  self->timeout_ns = timeout_ns;
  self->is_handler = library == Py_None;
  self->name = PyUnicode_FromString(name);
  int done =
      self->name == NULL ? -1 : fcp_read_signature(&self->signature, signature, self->is_handler);
  if (done == 0 && self->is_handler) {
    done = name_handler(self, name);
  } else if (done == 0) {
    const unsigned long long number = PyLong_AsUnsignedLongLong(library);
    done = PyErr_Occurred() ? -1 : look_up(self, number, name, signature);
  }
  if (done == 0) return (PyObject*)self;
  Py_DECREF((PyObject*)self);
  return NULL;
}

static void native_dealloc(PyObject* object) {
  fcp_native* const self = (fcp_native*)object;
  Py_DECREF((PyObject*)self->job);
  Py_XDECREF(self->name);
  Py_DECREF(self->owner);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject* native_name(PyObject* object, void* unused) {
  (void)unused;
  PyObject* const name = ((fcp_native*)object)->name;
  Py_INCREF(name);
  return name;
}

/// submit(*arguments): sends a call, and returns a future of its result.
static PyObject* native_submit(PyObject* object, PyObject* arguments) {
  return PyObject_CallMethod(((fcp_native*)object)->owner, "submit_native", "OO", object,
                             arguments);
}

static PyMethodDef native_methods[] = {
    {"submit", native_submit, METH_VARARGS, NULL},
    {"send", native_send, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/// The job of the function.
static PyObject* native_self(PyObject* object, void* unused) {
  (void)unused;
  PyObject* const owner = ((fcp_native*)object)->owner;
  Py_INCREF(owner);
  return owner;
}

static PyGetSetDef native_getters[] = {
    {"__self__", native_self, NULL, NULL, NULL},
    {"__name__", native_name, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef native_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(fcp_native, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot native_slots[] = {
    {Py_tp_doc, "Function in C on a node."}, {Py_tp_new, (void*)native_new},
    {Py_tp_call, (void*)native_call_tuple},  {Py_tp_dealloc, (void*)native_dealloc},
    {Py_tp_methods, native_methods},         {Py_tp_getset, native_getters},
    {Py_tp_members, native_members},         {0, NULL},
};

static PyType_Spec native_spec = {
    .name = "farcall._core.Native",
    .basicsize = sizeof(fcp_native),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = native_slots,
};

int fcp_add_native_types(PyObject* module) {
  native_type = (PyTypeObject*)PyType_FromSpec(&native_spec);
  if (native_type == NULL || fcp_add_queue_type(module) != 0) return -1;
  return PyModule_AddObjectRef(module, "Native", (PyObject*)native_type);
}
