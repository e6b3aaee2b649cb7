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
} fcp_function_object;

/// Message of a call that was not sent yet.
typedef struct fcp_message_object {
  PyObject ob_base;
  fcp_message message;
  bool is_made;
} fcp_message_object;

static PyTypeObject* function_type;
static PyTypeObject* message_type;

static const char run_name[] = "farcall.python.run";

fc_function fcp_run_function(void) {
  static fc_function number;
  if (number == 0) number = fc_named(run_name);
  return number;
}

bool fcp_is_function(PyObject* object) { return Py_TYPE(object) == function_type; }
bool fcp_is_message(PyObject* object) { return Py_TYPE(object) == message_type; }

PyObject* fcp_new_function(fcp_job* job, PyObject* arguments) {
  unsigned long long number = 0;
  PyObject* definition = NULL;
  if (!PyArg_ParseTuple(arguments, "KS", &number, &definition)) return NULL;
  fcp_function_object* const self = PyObject_New(fcp_function_object, function_type);
  if (self == NULL) return NULL;
  Py_INCREF((PyObject*)job);
  Py_INCREF(definition);
  self->job = job;
  self->number = number;
  self->definition = definition;
  self->known = NULL;
  self->known_count = 0;
  return (PyObject*)self;
}

static void function_dealloc(PyObject* object) {
  fcp_function_object* const self = (fcp_function_object*)object;
  Py_DECREF((PyObject*)self->job);
  Py_DECREF(self->definition);
  free(self->known);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
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

/// Sends the definition of the function to the node, unless the node has it.
static fc_status define(fcp_function_object* self, fc_node node) {
  if (node.id < self->known_count && self->known[node.id]) return FC_OK;
  char* bytes = NULL;
  Py_ssize_t size = 0;
  // Cannot fail, because fcp_new_function() has checked the type.
  PyBytes_AsStringAndSize(self->definition, &bytes, &size);
  const fc_bytes parts[2] = {{&self->number, sizeof self->number}, {bytes, (size_t)size}};
  fc_future* future = NULL;
  fc_status status;
  Py_BEGIN_ALLOW_THREADS
  status = fc_callv(node, fcp_define_function(), parts, 2, &future);
  Py_END_ALLOW_THREADS
  if (status != FC_OK) return status;
  fc_future_drop(future);
  mark_known(self, node.id);
  return FC_OK;
}

/// Sends the call to the node. If this returns FC_NODE_FAILED, the call has not run.
static fc_status send_call(fcp_function_object* self, fc_node node, fcp_message* m,
                           fc_future** future) {
  fc_status status = define(self, node);
  if (status == FC_OK) status = fcp_message_lend(m, self->job, node.id);
  if (status != FC_OK) return status;
  status = fc_try_call_async(node, fcp_run_function(), m->parts, m->part_count, future);
  if (status == FC_WOULD_BLOCK) {
    Py_BEGIN_ALLOW_THREADS
    status = fc_call_asyncv(node, fcp_run_function(), m->parts, m->part_count, future);
    Py_END_ALLOW_THREADS
  }
  return status;
}

/// Sends the call to the node with the fewest calls. Tries other nodes as long as nodes have
/// failed.
static fc_future* send_to_any(fcp_function_object* self, fcp_message* m, uint32_t* id) {
  for (;;) {
    fc_node node;
    if (fcp_begin_call(self->job, FC_NO_NODE, &node) != 0) return NULL;
    fc_future* future = NULL;
    const fc_status status = send_call(self, node, m, &future);
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

/// Calls the function, and waits for the result. Returns NULL without an exception if the worker
/// has returned the call.
static PyObject* call_once(fcp_function_object* self, fcp_message* m) {
  uint32_t id = 0;
  PyObject* result = NULL;
  fc_future* const future = send_to_any(self, m, &id);
  if (future == NULL) return NULL;
  if (fcp_wait(self->job, future) != 0) {
    fcp_abandon_call(self->job, future);
  } else {
    fc_status status = FC_OK;
    result = fcp_finish_call(self->job, future, id, &status);
    if (status == FC_NODE_FAILED) fcp_node_failed(self->job, id);
  }
  fcp_end_call(self->job, id);
  return result;
}

static PyObject* function_call(PyObject* object, PyObject* arguments, PyObject* keywords) {
  fcp_function_object* const self = (fcp_function_object*)object;
  fcp_message m;
  PyObject* result = NULL;
  if (fcp_message_of_call(&m, self->number, arguments, keywords) == 0) {
    do
      result = call_once(self, &m);
    while (result == NULL && !PyErr_Occurred());
  }
  fcp_message_clear(&m);
  return result;
}

fc_status fcp_send(PyObject* function, PyObject* message, fc_node node, fc_future** future) {
  return send_call((fcp_function_object*)function, node, &((fcp_message_object*)message)->message,
                   future);
}

/// encode(arguments, keywords): the message of a call, for Job.send().
static PyObject* function_encode(PyObject* object, PyObject* arguments) {
  fcp_function_object* const self = (fcp_function_object*)object;
  PyObject* positional = NULL;
  PyObject* keywords = NULL;
  if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &positional, &keywords)) return NULL;
  fcp_message_object* const made = PyObject_New(fcp_message_object, message_type);
  if (made == NULL) return NULL;
  const int done = fcp_message_of_call(&made->message, self->number, positional, keywords);
  if (done == 0) return (PyObject*)made;
  Py_DECREF(made);
  return NULL;
}

static void message_dealloc(PyObject* object) {
  fcp_message_clear(&((fcp_message_object*)object)->message);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyMethodDef function_methods[] = {
    {"encode", function_encode, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot function_slots[] = {
    {Py_tp_doc, "Function that workers know by a number."},
    {Py_tp_call, (void*)function_call},
    {Py_tp_dealloc, (void*)function_dealloc},
    {Py_tp_methods, function_methods},
    {0, NULL},
};

static PyType_Spec function_spec = {
    .name = "farcall._core.Function",
    .basicsize = sizeof(fcp_function_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
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
