// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <string.h>

// The type Memory: bytes of a block, as a buffer. Large arguments and results of calls are such
// objects, or stand on them, and so do arrays. The type Reference lets a message refer to memory.

/// Object whose buffer is the fcp_place of some memory.
typedef struct reference_object {
  PyObject ob_base;
  fcp_memory* memory;
} reference_object;

static PyTypeObject* memory_type;
static PyTypeObject* reference_type;
static fcp_memory* arrays; ///< memory of arrays; protected by the GIL
static _Thread_local int zero_copies;

PyObject* fcp_zero_copy(PyObject* module, PyObject* step) {
  (void)module;
  const long number = PyLong_AsLong(step);
  if (number == -1 && PyErr_Occurred()) return NULL;
  zero_copies += (int)number;
  Py_RETURN_NONE;
}

bool fcp_wants_views(void) { return zero_copies > 0; }

bool fcp_is_memory(PyObject* object) { return Py_TYPE(object) == memory_type; }

fcp_memory* fcp_referred(PyObject* object) {
  return Py_TYPE(object) == reference_type ? ((reference_object*)object)->memory : NULL;
}

fcp_memory* fcp_array_memory_of(const void* at, size_t size) {
  for (fcp_memory* each = arrays; each != NULL; each = each->next) {
    if (each->hold.head == NULL || each->hold.is_borrowed) continue;
    const char* const first = fcp_content(&each->hold);
    const char* const from = at;
    if (from >= first && from - first <= (ptrdiff_t)each->hold.place.size &&
        size <= each->hold.place.size - (size_t)(from - first))
      return each;
  }
  return NULL;
}

PyObject* fcp_new_memory(fcp_job* job, fcp_hold* hold, bool is_array) {
  fcp_memory* const made = PyObject_New(fcp_memory, memory_type);
  if (made == NULL) {
    fcp_drop(job->store, hold, true);
    return NULL;
  }
  memset((char*)made + sizeof(PyObject), 0, sizeof *made - sizeof(PyObject));
  Py_INCREF((PyObject*)job);
  made->job = job;
  made->hold = *hold;
  made->forks = fcp_forks();
  if (!is_array) return (PyObject*)made;
  made->next = arrays;
  if (arrays != NULL) arrays->previous = made;
  arrays = made;
  return (PyObject*)made;
}

/// Drops the hold, and unmaps the block, if no buffer uses it.
static void drop(fcp_memory* self) {
  // In a forked child, the hold belongs to the parent.
  if (self->exports == 0) fcp_drop(self->job->store, &self->hold, self->forks == fcp_forks());
}

static void memory_dealloc(PyObject* object) {
  fcp_memory* const self = (fcp_memory*)object;
  self->exports = 0;
  drop(self);
  if (self->next != NULL) self->next->previous = self->previous;
  if (self->previous != NULL) self->previous->next = self->next;
  if (arrays == self) arrays = self->next;
  Py_DECREF((PyObject*)self->job);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

PyObject* fcp_job_memory(fcp_job* job, PyObject* arguments) {
  unsigned id = 0;
  unsigned long long size = 0;
  fcp_hold hold;
  fc_node node;
  if (!PyArg_ParseTuple(arguments, "IK", &id, &size)) return NULL;
  fc_status status = fc_node_at(job->job, id, &node);
  if (status != FC_OK) return fcp_raise(status);
  FCP_BEGIN_USE(job)
  status = fcp_allocate(job->store, node, size, &hold);
  FCP_END_USE
  if (status == FC_OK) return fcp_new_memory(job, &hold, true);
  if (status == FC_MALFORMED)
    return PyErr_Format(PyExc_RuntimeError, "node %u has replied with invalid memory", id);
  if (status != FC_REMOTE_ERROR) return fcp_raise(status);
  static const char type[] = "MemoryError: ";
  const char* const text = fc_error_text();
  const char* const behind = strstr(text, type);
  PyErr_SetString(PyExc_MemoryError, behind == NULL ? text : behind + strlen(type));
  return NULL;
}

int fcp_check_memory(const fcp_memory* self) {
  fc_node node;
  if (self->was_freed) {
    PyErr_SetString(PyExc_ValueError, "the array was freed");
  } else if (self->job->job == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the job of the array has ended; a view that local() has "
                                        "returned can still be used");
  } else if (fc_node_at(self->job->job, self->hold.place.node, &node) != FC_OK ||
             !fc_node_alive(node)) {
    char text[120];
    PyOS_snprintf(text, sizeof text,
                  "node %u has ended, and its arrays with it; a view that "
                  "local() has returned can still be used",
                  (unsigned)self->hold.place.node);
    fcp_raise_failed(text, self->hold.place.node);
  } else {
    return 0;
  }
  return -1;
}

char* fcp_export_memory(fcp_memory* self) {
  if (self->was_freed) {
    PyErr_SetString(PyExc_ValueError, "the array was freed");
    return NULL;
  }
  if (self->hold.head == NULL) {
    PyErr_Format(PyExc_BufferError, "node %u is on another machine; get() copies its memory",
                 (unsigned)self->hold.place.node);
    return NULL;
  }
  ++self->exports;
  return fcp_content(&self->hold);
}

void fcp_end_export(fcp_memory* self) {
  --self->exports;
  if (self->was_freed) drop(self);
}

static int memory_get_buffer(PyObject* object, Py_buffer* view, int flags) {
  fcp_memory* const self = (fcp_memory*)object;
  char* const at = fcp_export_memory(self);
  view->obj = NULL;
  if (at == NULL) return -1;
  if (PyBuffer_FillInfo(view, object, at, (Py_ssize_t)self->hold.place.size, 0, flags) == 0)
    return 0;
  fcp_end_export(self);
  return -1;
}

static void memory_release_buffer(PyObject* object, Py_buffer* view) {
  (void)view;
  fcp_end_export((fcp_memory*)object);
}

static Py_ssize_t memory_length(PyObject* object) {
  return (Py_ssize_t)((fcp_memory*)object)->hold.place.size;
}

static PyObject* memory_get_item(PyObject* object, PyObject* key) {
  PyObject* const view = PyMemoryView_FromObject(object);
  PyObject* const item = view == NULL ? NULL : PyObject_GetItem(view, key);
  Py_XDECREF(view);
  return item;
}

static int memory_set_item(PyObject* object, PyObject* key, PyObject* value) {
  PyObject* const view = PyMemoryView_FromObject(object);
  int done = -1;
  if (view != NULL && value == NULL) {
    PyErr_SetString(PyExc_TypeError, "bytes of a block cannot be deleted");
  } else if (view != NULL) {
    done = PyObject_SetItem(view, key, value);
  }
  Py_XDECREF(view);
  return done;
}

static PyObject* memory_compare(PyObject* object, PyObject* other, int how) {
  PyObject* const view = PyMemoryView_FromObject(object);
  PyObject* const result = view == NULL ? NULL : PyObject_RichCompare(view, other, how);
  Py_XDECREF(view);
  return result;
}

/// __reduce_ex__(protocol): lets the bytes be pickled like a pickle.PickleBuffer.
static PyObject* memory_reduce(PyObject* object, PyObject* protocol) {
  (void)protocol;
  PyObject* const module = PyImport_ImportModule("farcall._pickling");
  PyObject* const reduced =
      module == NULL ? NULL : PyObject_CallMethod(module, "reduce_memory", "O", object);
  Py_XDECREF(module);
  return reduced;
}

/// free(): gives the block back as soon as no buffer of it is in use.
static PyObject* memory_free(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_memory* const self = (fcp_memory*)object;
  self->was_freed = true;
  drop(self);
  Py_RETURN_NONE;
}

/// pin(): counts a buffer of the memory that never ends.
static PyObject* memory_pin(PyObject* object, PyObject* unused) {
  (void)unused;
  if (fcp_export_memory((fcp_memory*)object) == NULL) return NULL;
  Py_RETURN_NONE;
}

/// reference(): an object that stands for the memory in out-of-band buffers of pickles.
static PyObject* memory_reference(PyObject* object, PyObject* unused) {
  (void)unused;
  if (fcp_check_memory((fcp_memory*)object) != 0) return NULL;
  reference_object* const made = PyObject_New(reference_object, reference_type);
  if (made == NULL) return NULL;
  Py_INCREF(object);
  made->memory = (fcp_memory*)object;
  return (PyObject*)made;
}

static PyObject* memory_node(PyObject* object, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLong(((fcp_memory*)object)->hold.place.node);
}

static PyObject* memory_is_mapped(PyObject* object, void* unused) {
  (void)unused;
  return PyBool_FromLong(((fcp_memory*)object)->hold.head != NULL);
}

static PyObject* memory_was_freed(PyObject* object, void* unused) {
  (void)unused;
  return PyBool_FromLong(((fcp_memory*)object)->was_freed);
}

static PyMethodDef memory_methods[] = {
    {"free", memory_free, METH_NOARGS, NULL},
    {"pin", memory_pin, METH_NOARGS, NULL},
    {"reference", memory_reference, METH_NOARGS, NULL},
    {"__reduce_ex__", memory_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef memory_members[] = {
    {"node", memory_node, NULL, NULL, NULL},
    {"is_mapped", memory_is_mapped, NULL, NULL, NULL},
    {"was_freed", memory_was_freed, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "Bytes in shared memory, which support the buffer protocol."},
    {Py_tp_dealloc, (void*)memory_dealloc},
    {Py_tp_methods, memory_methods},
    {Py_tp_getset, memory_members},
    {Py_tp_richcompare, (void*)memory_compare},
    {Py_tp_hash, (void*)PyObject_HashNotImplemented},
    {Py_mp_length, (void*)memory_length},
    {Py_mp_subscript, (void*)memory_get_item},
    {Py_mp_ass_subscript, (void*)memory_set_item},
    {Py_bf_getbuffer, (void*)memory_get_buffer},
    {Py_bf_releasebuffer, (void*)memory_release_buffer},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "farcall._core.Memory",
    .basicsize = sizeof(fcp_memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};

static void reference_dealloc(PyObject* object) {
  Py_DECREF((PyObject*)((reference_object*)object)->memory);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static int reference_get_buffer(PyObject* object, Py_buffer* view, int flags) {
  fcp_place* const place = &((reference_object*)object)->memory->hold.place;
  // Buffers that may be written to are unpickled without a wrapper.
  return PyBuffer_FillInfo(view, object, place, sizeof *place, 0, flags);
}

static PyType_Slot reference_slots[] = {
    {Py_tp_doc, "Stands for memory in messages."},
    {Py_tp_dealloc, (void*)reference_dealloc},
    {Py_bf_getbuffer, (void*)reference_get_buffer},
    {0, NULL},
};

static PyType_Spec reference_spec = {
    .name = "farcall._core.Reference",
    .basicsize = sizeof(reference_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = reference_slots,
};

int fcp_add_memory_types(PyObject* module) {
  memory_type = (PyTypeObject*)PyType_FromSpec(&memory_spec);
  reference_type = (PyTypeObject*)PyType_FromSpec(&reference_spec);
  if (memory_type == NULL || reference_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "Memory", (PyObject*)memory_type);
}
