// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

// The type Future of this module: the members of futures, and their fast functions. The class
// farcall.Future inherits them, and the rest from concurrent.futures.Future.

static PyTypeObject* base_type;
static PyTypeObject* made_type; ///< farcall.Future
static PyObject* state_names[FCP_FINISHED + 1];

bool fcp_is_future(PyObject* object) {
  return made_type != NULL && PyType_IsSubtype(Py_TYPE(object), base_type);
}

/// set_future_type(type): the class of the futures that this module makes.
PyObject* fcp_set_future_type(PyObject* module, PyObject* type) {
  (void)module;
  if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject*)type, base_type)) {
    PyErr_SetString(PyExc_TypeError, "the class of futures must inherit from Future");
    return NULL;
  }
  Py_INCREF(type);
  Py_XDECREF((PyObject*)made_type);
  made_type = (PyTypeObject*)type;
  Py_RETURN_NONE;
}

fcp_future* fcp_new_future(void) {
  static allocfunc allocate;
  if (allocate == NULL) allocate = (allocfunc)PyType_GetSlot(made_type, Py_tp_alloc);
  return (fcp_future*)allocate(made_type, 0);
}

static int future_init(PyObject* object, PyObject* arguments, PyObject* keywords) {
  (void)object;
  (void)arguments;
  (void)keywords;
  return 0;
}

static int future_traverse(PyObject* object, visitproc visit, void* arg) {
  fcp_future* const self = (fcp_future*)object;
  Py_VISIT((PyObject*)Py_TYPE(object));
  Py_VISIT(self->result);
  Py_VISIT(self->exception);
  Py_VISIT(self->made);
  Py_VISIT(self->waiters);
  Py_VISIT(self->callbacks);
  Py_VISIT(self->pool);
  Py_VISIT(self->call);
  Py_VISIT(self->called);
  Py_VISIT(self->function);
  Py_VISIT(self->message);
  Py_VISIT(self->arguments);
  Py_VISIT(self->express);
  return 0;
}

static int future_clear(PyObject* object) {
  fcp_future* const self = (fcp_future*)object;
  fcp_forget_call(self);
  Py_CLEAR(self->result);
  Py_CLEAR(self->exception);
  Py_CLEAR(self->made);
  Py_CLEAR(self->waiters);
  Py_CLEAR(self->callbacks);
  Py_CLEAR(self->pool);
  Py_CLEAR(self->call);
  Py_CLEAR(self->express);
  return 0;
}

void fcp_forget_call(fcp_future* self) {
  Py_CLEAR(self->called);
  Py_CLEAR(self->function);
  Py_CLEAR(self->message);
  Py_CLEAR(self->arguments);
}

static void future_dealloc(PyObject* object) {
  static freefunc release;
  if (release == NULL) release = (freefunc)PyType_GetSlot(base_type, Py_tp_free);
  PyObject_GC_UnTrack(object);
  future_clear(object);
  PyTypeObject* const type = Py_TYPE(object);
  release(object);
  Py_DECREF((PyObject*)type);
}

static PyObject* get_state(PyObject* object, void* unused) {
  (void)unused;
  PyObject* const name = state_names[((fcp_future*)object)->state];
  Py_INCREF(name);
  return name;
}

static int set_state(PyObject* object, PyObject* name, void* unused) {
  (void)unused;
  for (int i = 0; name != NULL && i <= FCP_FINISHED; ++i) {
    if (name == state_names[i] || PyUnicode_Compare(name, state_names[i]) == 0) {
      ((fcp_future*)object)->state = i;
      return 0;
    }
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "unknown state of a future");
  return -1;
}

static PyObject* get_node(PyObject* object, void* unused) {
  (void)unused;
  const fcp_future* const self = (fcp_future*)object;
  if (!self->has_node) Py_RETURN_NONE;
  return PyLong_FromUnsignedLong(self->node);
}

static int set_node(PyObject* object, PyObject* value, void* unused) {
  (void)unused;
  fcp_future* const self = (fcp_future*)object;
  self->has_node = value != NULL && value != Py_None;
  if (!self->has_node) return 0;
  const unsigned long node = PyLong_AsUnsignedLong(value);
  self->node = (uint32_t)node;
  return PyErr_Occurred() ? -1 : 0;
}

/// True if the call was sent by Express, and the pool does not know it.
static PyObject* get_is_express(PyObject* object, void* unused) {
  (void)unused;
  return PyBool_FromLong(((fcp_future*)object)->is_express);
}

/// has_ended(): like done(), but leaves the pool alone.
static PyObject* future_has_ended(PyObject* object, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(fcp_future_has_ended((fcp_future*)object));
}

/// forget(): drops the call, after it has ended.
static PyObject* future_forget(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_forget_call((fcp_future*)object);
  Py_CLEAR(((fcp_future*)object)->call);
  Py_RETURN_NONE;
}

/// Returns the result, or raises the exception. Returns NULL without an exception if there is
/// neither. Raised here, exceptions have no frames of Python code between raiser and caller.
static PyObject* outcome_of(fcp_future* self) {
  if (self->state != FCP_FINISHED) return NULL;
  if (self->exception == NULL || self->exception == Py_None) {
    PyObject* const result = self->result == NULL ? Py_None : self->result;
    Py_INCREF(result);
    return result;
  }
  if (PyExceptionInstance_Check(self->exception))
    PyErr_SetObject((PyObject*)Py_TYPE(self->exception), self->exception);
  return NULL;
}

/// result(timeout=None)
static PyObject* future_result(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* keywords) {
  fcp_future* const self = (fcp_future*)object;
  PyObject* timeout = Py_None;
  if (count == 1 && keywords == NULL) {
    timeout = arguments[0];
  } else if (count == 0 && keywords != NULL && PyTuple_Size(keywords) == 1 &&
             PyUnicode_CompareWithASCIIString(PyTuple_GetItem(keywords, 0), "timeout") == 0) {
    timeout = arguments[0];
  } else if (count != 0 || keywords != NULL) {
    PyErr_SetString(PyExc_TypeError, "result() takes one argument, timeout");
    return NULL;
  }
  PyObject* result = outcome_of(self);
  if (result != NULL || PyErr_Occurred()) return result;
  if (timeout == Py_None && self->express != NULL && !fcp_future_has_ended(self)) {
    if (fcp_help(self->express, self) != 0) return NULL;
    result = outcome_of(self);
    if (result != NULL || PyErr_Occurred()) return result;
  }
  PyObject* const ended = PyObject_CallMethod(object, "_wait_for_end", "O", timeout);
  if (ended == NULL) return NULL;
  Py_DECREF(ended);
  result = outcome_of(self);
  if (result == NULL && !PyErr_Occurred())
    PyErr_SetString(PyExc_TypeError, "the exception of the future is no exception");
  return result;
}

// ---- await --------------------------------------------------------------------------------------

/// Iterator that ends at once with a value, which is then the result of `await`.
typedef struct ended_wait {
  PyObject ob_base;
  PyObject* value;
} ended_wait;

static PyTypeObject* ended_wait_type;

static void ended_wait_dealloc(PyObject* object) {
  Py_XDECREF(((ended_wait*)object)->value);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF((PyObject*)type);
}

static PyObject* ended_wait_next(PyObject* object) {
  PyObject* const value = ((ended_wait*)object)->value;
  if (value == Py_None) return NULL;
  // An instance, because a tuple would become the arguments of a StopIteration.
  PyObject* const stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, value, NULL);
  if (stop != NULL) PyErr_SetObject(PyExc_StopIteration, stop);
  Py_XDECREF(stop);
  return NULL;
}

static PyType_Slot ended_wait_slots[] = {
    {Py_tp_doc, "Wait for a future that has its result."},
    {Py_tp_dealloc, (void*)ended_wait_dealloc},
    {Py_tp_iter, (void*)PyObject_SelfIter},
    {Py_tp_iternext, (void*)ended_wait_next},
    {0, NULL},
};

static PyType_Spec ended_wait_spec = {
    .name = "farcall._core.EndedWait",
    .basicsize = sizeof(ended_wait),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = ended_wait_slots,
};

/// Returns the iterator of `await future`. Most futures of a gather() have their result by then.
static PyObject* future_await(PyObject* object) {
  fcp_future* const self = (fcp_future*)object;
  const bool has_result =
      self->state == FCP_FINISHED && (self->exception == NULL || self->exception == Py_None);
  if (!has_result) return PyObject_CallMethod(object, "_wait_in_loop", NULL);
  ended_wait* const made = PyObject_New(ended_wait, ended_wait_type);
  if (made != NULL) made->value = outcome_of(self);
  return (PyObject*)made;
}

static PyMemberDef members[] = {
    {"_result", T_OBJECT, offsetof(fcp_future, result), 0, NULL},
    {"_exception", T_OBJECT, offsetof(fcp_future, exception), 0, NULL},
    {"_made", T_OBJECT, offsetof(fcp_future, made), 0, NULL},
    {"_waiters", T_OBJECT_EX, offsetof(fcp_future, waiters), 0, NULL},
    {"_done_callbacks", T_OBJECT_EX, offsetof(fcp_future, callbacks), 0, NULL},
    {"pool", T_OBJECT, offsetof(fcp_future, pool), 0, NULL},
    {"call", T_OBJECT, offsetof(fcp_future, call), 0, NULL},
    {"called", T_OBJECT, offsetof(fcp_future, called), READONLY, NULL},
    {"function", T_OBJECT, offsetof(fcp_future, function), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"_state", get_state, set_state, NULL, NULL},
    {"node", get_node, set_node,
     "Number of the worker that runs or has run the task, and None before.", NULL},
    {"is_express", get_is_express, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"has_ended", future_has_ended, METH_NOARGS, "Like done(), but leaves the pool alone."},
    {"forget", future_forget, METH_NOARGS, "Drops the call."},
    {"result", (PyCFunction)(void (*)(void))future_result, METH_FASTCALL | METH_KEYWORDS,
     "result(timeout=None)\n\nReturns the result, or raises the exception. Waits for them, at most "
     "for `timeout` seconds."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Members of futures."},
    {Py_tp_init, (void*)future_init},
    {Py_tp_traverse, (void*)future_traverse},
    {Py_tp_clear, (void*)future_clear},
    {Py_tp_dealloc, (void*)future_dealloc},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_am_await, (void*)future_await},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "farcall._core.Future",
    .basicsize = sizeof(fcp_future),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int fcp_add_future_type(PyObject* module) {
  static const char* const names[] = {"PENDING", "RUNNING", "CANCELLED", "CANCELLED_AND_NOTIFIED",
                                      "FINISHED"};
  for (int i = 0; i <= FCP_FINISHED; ++i) {
    state_names[i] = PyUnicode_InternFromString(names[i]);
    if (state_names[i] == NULL) return -1;
  }
  ended_wait_type = (PyTypeObject*)PyType_FromSpec(&ended_wait_spec);
  base_type = (PyTypeObject*)PyType_FromSpec(&spec);
  return base_type == NULL || ended_wait_type == NULL
             ? -1
             : PyModule_AddObjectRef(module, "Future", (PyObject*)base_type);
}
