// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <stdlib.h>
#include <string.h>

// The type View: elements in memory, with a shape and strides. Arrays are objects of a subclass in
// Python. A view has the buffer protocol, DLPack, and copies.

enum { most_dimensions = 32, long_copy = 256 * 1024 };

typedef struct view_object {
  PyObject ob_base;
  fcp_memory* memory;
  Py_ssize_t offset; ///< of the first element in the memory
  Py_ssize_t item;   ///< bytes of an element
  int dimensions;
  int is_readonly;
  char format[8];
  Py_ssize_t sizes[2 * most_dimensions]; ///< shape, and then strides
} view_object;

static PyTypeObject* view_type;

static Py_ssize_t* shape_of(view_object* self) { return self->sizes; }
static Py_ssize_t* strides_of(view_object* self) { return self->sizes + most_dimensions; }

static Py_ssize_t count_of(view_object* self) {
  Py_ssize_t count = 1;
  for (int i = 0; i < self->dimensions; ++i)
    count *= shape_of(self)[i];
  return count;
}

/// True if the elements follow each other in the order of C.
static bool is_contiguous(view_object* self) {
  Py_ssize_t step = self->item;
  if (count_of(self) == 0) return true;
  for (int i = self->dimensions - 1; i >= 0; --i) {
    if (shape_of(self)[i] != 1 && strides_of(self)[i] != step) return false;
    step *= shape_of(self)[i];
  }
  return true;
}

// ---- construction -------------------------------------------------------------------------------

static int get_sizes(PyObject* tuple, Py_ssize_t* sizes, int count) {
  for (int i = 0; i < count; ++i) {
    PyObject* const number = PyTuple_GetItem(tuple, i);
    if (number == NULL) return -1;
    sizes[i] = PyLong_AsSsize_t(number);
    if (sizes[i] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

/// True if the numbers of elements are valid, and the bytes of all can be counted. Sets `*is_empty`
/// to true if there are no elements.
static bool can_count(view_object* self, bool* is_empty) {
  Py_ssize_t bytes = self->item;
  *is_empty = false;
  for (int i = 0; i < self->dimensions; ++i) {
    const Py_ssize_t count = shape_of(self)[i];
    *is_empty = *is_empty || count == 0;
    if (count < 0 || (count != 0 && __builtin_mul_overflow(bytes, count, &bytes))) return false;
  }
  return true;
}

/// True if all elements are in the memory. Assumes that there are some.
static bool is_inside(view_object* self) {
  Py_ssize_t first = self->offset;
  Py_ssize_t end = 0;
  if (__builtin_add_overflow(self->offset, self->item, &end)) return false;
  for (int i = 0; i < self->dimensions; ++i) {
    Py_ssize_t way = 0;
    if (__builtin_mul_overflow(shape_of(self)[i] - 1, strides_of(self)[i], &way)) return false;
    Py_ssize_t* const to = way < 0 ? &first : &end;
    if (__builtin_add_overflow(*to, way, to)) return false;
  }
  return first >= 0 && end <= (Py_ssize_t)self->memory->hold.place.size;
}

/// Raises an error if elements are outside the memory.
static int check_inside(view_object* self) {
  bool is_empty = false;
  if (can_count(self, &is_empty) && (is_empty || is_inside(self))) return 0;
  PyErr_SetString(PyExc_ValueError, "some elements would be outside the memory");
  return -1;
}

/// View(memory, offset, format, item size, shape, strides, is_readonly)
static PyObject* view_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  PyObject* memory = NULL;
  PyObject* shape = NULL;
  PyObject* strides = NULL;
  const char* format = NULL;
  Py_ssize_t offset = 0;
  Py_ssize_t item = 0;
  int is_readonly = 0;
  if (!PyArg_ParseTuple(arguments, "OnsnO!O!p", &memory, &offset, &format, &item, &PyTuple_Type,
                        &shape, &PyTuple_Type, &strides, &is_readonly))
    return NULL;
  const Py_ssize_t dimensions = PyTuple_Size(shape);
  if (!fcp_is_memory(memory) || item <= 0 || strlen(format) > 7 ||
      PyTuple_Size(strides) != dimensions) {
    PyErr_SetString(PyExc_TypeError, "farcall.empty() makes arrays");
    return NULL;
  }
  if (dimensions > most_dimensions) {
    return PyErr_Format(PyExc_ValueError, "an array has at most %d dimensions", most_dimensions);
  }
  const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  view_object* const self = (view_object*)allocate(type, 0);
  if (self == NULL) return NULL;
  Py_INCREF(memory);
  self->memory = (fcp_memory*)memory;
  self->offset = offset;
  self->item = item;
  self->dimensions = (int)dimensions;
  self->is_readonly = is_readonly;
  strcpy(self->format, format);
  if (get_sizes(shape, shape_of(self), self->dimensions) == 0 &&
      get_sizes(strides, strides_of(self), self->dimensions) == 0 && check_inside(self) == 0)
    return (PyObject*)self;
  Py_DECREF((PyObject*)self);
  return NULL;
}

static void view_dealloc(PyObject* object) {
  Py_XDECREF((PyObject*)((view_object*)object)->memory);
  PyTypeObject* const type = Py_TYPE(object);
  const freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

// ---- buffers ------------------------------------------------------------------------------------

static int view_get_buffer(PyObject* object, Py_buffer* view, int flags) {
  view_object* const self = (view_object*)object;
  view->obj = NULL;
  if ((flags & PyBUF_WRITABLE) != 0 && self->is_readonly) {
    PyErr_SetString(PyExc_BufferError, "the array is read-only");
    return -1;
  }
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !is_contiguous(self)) {
    PyErr_SetString(PyExc_BufferError, "the elements of the array do not follow each other");
    return -1;
  }
  char* const at = fcp_export_memory(self->memory);
  if (at == NULL) return -1;
  Py_INCREF(object);
  *view = (Py_buffer){.buf = at + self->offset,
                      .obj = object,
                      .len = count_of(self) * self->item,
                      .itemsize = self->item,
                      .readonly = self->is_readonly,
                      .ndim = self->dimensions};
  if ((flags & PyBUF_FORMAT) == PyBUF_FORMAT) view->format = self->format;
  if ((flags & PyBUF_ND) == PyBUF_ND) view->shape = shape_of(self);
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) view->strides = strides_of(self);
  return 0;
}

static void view_release_buffer(PyObject* object, Py_buffer* view) {
  (void)view;
  fcp_end_export(((view_object*)object)->memory);
}

// ---- copies -------------------------------------------------------------------------------------

/// Copies `bytes` bytes between offsets of two sides.
typedef fc_status (*copy_run)(void* sides, Py_ssize_t from, Py_ssize_t to, size_t bytes);

/// Elements that are copied, as an offset and strides on each side.
typedef struct copy_plan {
  int dimensions;
  size_t run; ///< bytes that follow each other on both sides
  const Py_ssize_t* shape;
  const Py_ssize_t* from_strides;
  const Py_ssize_t* to_strides;
  copy_run copy;
  void* sides;
} copy_plan;

static fc_status copy_all(const copy_plan* plan, int dimension, Py_ssize_t from, Py_ssize_t to) {
  if (dimension == plan->dimensions) return plan->copy(plan->sides, from, to, plan->run);
  fc_status status = FC_OK;
  for (Py_ssize_t i = 0; status == FC_OK && i < plan->shape[dimension]; ++i) {
    status = copy_all(plan, dimension + 1, from, to);
    from += plan->from_strides[dimension];
    to += plan->to_strides[dimension];
  }
  return status;
}

/// Copies the elements of a view to or from places with other strides, without the GIL.
static fc_status copy_elements(view_object* self, const Py_ssize_t* from_strides, Py_ssize_t from,
                               const Py_ssize_t* to_strides, Py_ssize_t to, copy_run copy,
                               void* sides) {
  copy_plan plan = {
      self->dimensions, (size_t)self->item, shape_of(self), from_strides, to_strides, copy, sides};
  if (count_of(self) == 0) return FC_OK;
  while (plan.dimensions > 0) {
    const int last = plan.dimensions - 1;
    const bool is_run = plan.shape[last] == 1 || (from_strides[last] == (Py_ssize_t)plan.run &&
                                                  to_strides[last] == (Py_ssize_t)plan.run);
    if (!is_run) break;
    plan.run *= (size_t)plan.shape[last];
    --plan.dimensions;
  }
  fc_status status;
  if ((size_t)(count_of(self) * self->item) < long_copy && self->memory->hold.head != NULL)
    return copy_all(&plan, 0, from, to);
  fcp_end_left_copies();
  FCP_BEGIN_WAIT(self->memory->job)
  status = copy_all(&plan, 0, from, to);
  FCP_END_WAIT
  return status;
}

/// Sides of a copy between memory and a buffer of this process.
typedef struct buffer_sides {
  fc_job* job;
  fc_span span;
  char* mapped; ///< the same memory in this process, or NULL
  char* buffer;
  fc_future* left; ///< copy that goes on after an exception of a signal handler, or NULL
} buffer_sides;

enum { direct_from = 64 * 1024 };

static fc_status read_run(void* sides, Py_ssize_t from, Py_ssize_t to, size_t bytes) {
  buffer_sides* const s = sides;
  if (s->mapped != NULL && bytes < direct_from) {
    memcpy(s->buffer + to, s->mapped + from, bytes);
    return FC_OK;
  }
  const fc_span part = {s->span.address + (uint64_t)from, bytes, s->span.node, 0};
  if (s->mapped != NULL) return fc_get(s->job, part, s->buffer + to, bytes);
  fc_future* copy = NULL;
  const fc_status status = fc_get_async(s->job, part, s->buffer + to, bytes, &copy);
  return fcp_await_copy(status, copy, &s->left);
}

static fc_status write_run(void* sides, Py_ssize_t from, Py_ssize_t to, size_t bytes) {
  buffer_sides* const s = sides;
  if (s->mapped != NULL && bytes < direct_from) {
    memcpy(s->mapped + to, s->buffer + from, bytes);
    return FC_OK;
  }
  const fc_span part = {s->span.address + (uint64_t)to, bytes, s->span.node, 0};
  if (s->mapped != NULL) return fc_put(s->job, part, s->buffer + from, bytes);
  fc_future* copy = NULL;
  const fc_status status = fc_put_async(s->job, part, s->buffer + from, bytes, &copy);
  return fcp_await_copy(status, copy, &s->left);
}

/// Copies between the view and the contiguous buffer.
static PyObject* transfer(view_object* self, PyObject* other, bool is_write) {
  Py_buffer buffer;
  Py_ssize_t strides[most_dimensions];
  Py_ssize_t step = self->item;
  if (PyObject_GetBuffer(other, &buffer,
                         is_write ? PyBUF_C_CONTIGUOUS : PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0)
    return NULL;
  for (int i = self->dimensions - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape_of(self)[i];
  }
  fcp_memory* const memory = self->memory;
  fc_status status = FC_INVALID_ARGUMENT;
  if (buffer.len != count_of(self) * self->item) {
    PyErr_Format(PyExc_ValueError, "the array has %zd bytes, and the buffer %zd",
                 count_of(self) * self->item, buffer.len);
  } else if (fcp_check_memory(memory) == 0) {
    char* const mapped = memory->hold.head == NULL ? NULL : fcp_export_memory(memory);
    buffer_sides sides = {
        memory->job->job,
        {memory->hold.place.at, memory->hold.place.size, memory->hold.place.node, 0},
        mapped,
        buffer.buf,
        NULL};
    status =
        is_write
            ? copy_elements(self, strides, 0, strides_of(self), self->offset, &write_run, &sides)
            : copy_elements(self, strides_of(self), self->offset, strides, 0, &read_run, &sides);
    if (mapped != NULL) fcp_end_export(memory);
    if (sides.left != NULL) {
      fcp_leave_copy(sides.left, &buffer, (PyObject*)memory);
      return fcp_raise(status);
    }
  }
  PyBuffer_Release(&buffer);
  if (status != FC_OK) return fcp_raise(status);
  Py_RETURN_NONE;
}

/// read(buffer): copies the elements to a contiguous buffer.
static PyObject* view_read(PyObject* object, PyObject* buffer) {
  return transfer((view_object*)object, buffer, false);
}

/// write(buffer): copies the elements of a contiguous buffer to the view.
static PyObject* view_write(PyObject* object, PyObject* buffer) {
  if (((view_object*)object)->is_readonly) {
    PyErr_SetString(PyExc_ValueError, "the array is read-only");
    return NULL;
  }
  return transfer((view_object*)object, buffer, true);
}

/// Sides of a copy between memory of nodes.
typedef struct node_sides {
  fc_job* job;
  fc_span from;
  fc_span to;
  char* mapped_from; ///< NULL unless both sides are mapped
  char* mapped_to;
  fc_future* left; ///< as in buffer_sides
} node_sides;

static fc_status copy_run_between(void* sides, Py_ssize_t from, Py_ssize_t to, size_t bytes) {
  node_sides* const s = sides;
  if (s->mapped_from != NULL && bytes < direct_from) {
    memmove(s->mapped_to + to, s->mapped_from + from, bytes);
    return FC_OK;
  }
  const fc_span source = {s->from.address + (uint64_t)from, bytes, s->from.node, 0};
  const fc_span destination = {s->to.address + (uint64_t)to, bytes, s->to.node, 0};
  if (s->mapped_from != NULL) return fc_copy(s->job, source, destination);
  fc_future* copy = NULL;
  const fc_status status = fc_copy_async(s->job, source, destination, &copy);
  return fcp_await_copy(status, copy, &s->left);
}

/// copy(to): copies the elements to a view with the same shape and size of elements, in other
/// memory.
static PyObject* view_copy(PyObject* object, PyObject* other) {
  view_object* const self = (view_object*)object;
  if (!PyObject_TypeCheck(other, view_type)) {
    PyErr_SetString(PyExc_TypeError, "an array can be copied only to an array");
    return NULL;
  }
  view_object* const to = (view_object*)other;
  if (self->dimensions != to->dimensions || self->item != to->item ||
      memcmp(self->sizes, to->sizes, (size_t)self->dimensions * sizeof *self->sizes) != 0) {
    PyErr_SetString(PyExc_ValueError, "the arrays have different shapes or types");
    return NULL;
  }
  if (to->is_readonly) {
    PyErr_SetString(PyExc_ValueError, "the array is read-only");
    return NULL;
  }
  if (self->memory->job != to->memory->job) {
    PyErr_SetString(PyExc_ValueError,
                    "the arrays belong to different executors; use get() and put()");
    return NULL;
  }
  if (fcp_check_memory(self->memory) != 0 || fcp_check_memory(to->memory) != 0) return NULL;
  const fcp_place* const a = &self->memory->hold.place;
  const fcp_place* const b = &to->memory->hold.place;
  const bool is_mapped = self->memory->hold.head != NULL && to->memory->hold.head != NULL;
  node_sides sides = {self->memory->job->job,
                      {a->at, a->size, a->node, 0},
                      {b->at, b->size, b->node, 0},
                      is_mapped ? fcp_export_memory(self->memory) : NULL,
                      is_mapped ? fcp_export_memory(to->memory) : NULL,
                      NULL};
  const fc_status status = copy_elements(self, strides_of(self), self->offset, strides_of(to),
                                         to->offset, &copy_run_between, &sides);
  if (is_mapped) {
    fcp_end_export(self->memory);
    fcp_end_export(to->memory);
  }
  // The memory that is written stays as long as the copy.
  if (sides.left != NULL) fcp_leave_copy(sides.left, NULL, (PyObject*)to->memory);
  if (status != FC_OK) return fcp_raise(status);
  Py_RETURN_NONE;
}

// ---- DLPack -------------------------------------------------------------------------------------

// Structures of DLPack 1.0, https://github.com/dmlc/dlpack.

typedef struct dl_tensor {
  void* data;
  struct {
    int32_t type;
    int32_t number;
  } device;
  int32_t dimensions;
  struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } type;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void* context;
  void (*deleter)(struct dl_managed*);
} dl_managed;

typedef struct dl_versioned {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  void* context;
  void (*deleter)(struct dl_versioned*);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;

enum { dl_cpu = 1, dl_readonly = 1 };

/// A tensor, and the buffer that keeps its memory.
typedef struct exported_tensor {
  union {
    dl_managed plain;
    dl_versioned versioned;
  } managed;
  Py_buffer buffer;
  int64_t sizes[2 * most_dimensions];
} exported_tensor;

static void delete_tensor(exported_tensor* tensor) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyBuffer_Release(&tensor->buffer);
  PyGILState_Release(state);
  free(tensor);
}

static void delete_plain(dl_managed* managed) { delete_tensor(managed->context); }
static void delete_versioned(dl_versioned* managed) { delete_tensor(managed->context); }

/// Destroys a capsule that nobody has taken the tensor out of.
static void drop_capsule(PyObject* capsule) {
  static const char* const names[] = {"dltensor", "dltensor_versioned"};
  for (int i = 0; i < 2; ++i) {
    if (!PyCapsule_IsValid(capsule, names[i])) continue;
    void* const managed = PyCapsule_GetPointer(capsule, names[i]);
    if (i == 0) {
      delete_plain(managed);
    } else {
      delete_versioned(managed);
    }
  }
}

/// Fills the description of the tensor's elements. Returns false if DLPack has no such type.
static bool set_type(dl_tensor* tensor, const view_object* view) {
  const char kind = view->format[0];
  tensor->type.bits = (uint8_t)(view->item * 8);
  tensor->type.lanes = 1;
  if (kind == '?') {
    tensor->type.code = 6;
  } else if (kind == 'Z') {
    tensor->type.code = 5;
  } else if (kind == 'e' || kind == 'f' || kind == 'd') {
    tensor->type.code = 2;
  } else if (strchr("bhilqn", kind) != NULL) {
    tensor->type.code = 0;
  } else if (strchr("BHILQN", kind) != NULL) {
    tensor->type.code = 1;
  } else {
    return false;
  }
  return true;
}

/// dlpack(is_versioned): a capsule with a tensor that shares the memory.
static PyObject* view_dlpack(PyObject* object, PyObject* is_versioned_object) {
  view_object* const self = (view_object*)object;
  const bool is_versioned = PyObject_IsTrue(is_versioned_object) == 1;
  if (self->is_readonly && !is_versioned) {
    PyErr_SetString(PyExc_BufferError,
                    "the array is read-only, which DLPack cannot say before 1.0");
    return NULL;
  }
  exported_tensor* const made = calloc(1, sizeof *made);
  if (made == NULL) return PyErr_NoMemory();
  dl_tensor* const tensor =
      is_versioned ? &made->managed.versioned.tensor : &made->managed.plain.tensor;
  if (!set_type(tensor, self)) {
    PyErr_SetString(PyExc_BufferError, "DLPack has no such type of elements");
    free(made);
    return NULL;
  }
  if (PyObject_GetBuffer(object, &made->buffer, PyBUF_STRIDES) != 0) {
    free(made);
    return NULL;
  }
  tensor->data = made->buffer.buf;
  tensor->device.type = dl_cpu;
  tensor->dimensions = self->dimensions;
  tensor->shape = made->sizes;
  tensor->strides = made->sizes + most_dimensions;
  for (int i = 0; i < self->dimensions; ++i) {
    tensor->shape[i] = shape_of(self)[i];
    tensor->strides[i] = strides_of(self)[i] / self->item;
  }
  PyObject* capsule;
  if (is_versioned) {
    dl_versioned* const managed = &made->managed.versioned;
    managed->version.major = 1;
    managed->context = made;
    managed->deleter = &delete_versioned;
    managed->flags = self->is_readonly ? dl_readonly : 0;
    capsule = PyCapsule_New(managed, "dltensor_versioned", &drop_capsule);
  } else {
    dl_managed* const managed = &made->managed.plain;
    managed->context = made;
    managed->deleter = &delete_plain;
    capsule = PyCapsule_New(managed, "dltensor", &drop_capsule);
  }
  if (capsule == NULL) delete_tensor(made);
  return capsule;
}

// ---- the type -----------------------------------------------------------------------------------

static PyObject* tuple_of(const Py_ssize_t* sizes, int count) {
  PyObject* const tuple = PyTuple_New(count);
  for (int i = 0; tuple != NULL && i < count; ++i) {
    PyObject* const number = PyLong_FromSsize_t(sizes[i]);
    if (number == NULL) {
      Py_DECREF(tuple);
      return NULL;
    }
    PyTuple_SetItem(tuple, i, number);
  }
  return tuple;
}

static PyObject* view_memory(PyObject* object, void* unused) {
  (void)unused;
  PyObject* const memory = (PyObject*)((view_object*)object)->memory;
  Py_INCREF(memory);
  return memory;
}

static PyObject* view_offset(PyObject* object, void* unused) {
  (void)unused;
  return PyLong_FromSsize_t(((view_object*)object)->offset);
}

static PyObject* view_format(PyObject* object, void* unused) {
  (void)unused;
  return PyUnicode_FromString(((view_object*)object)->format);
}

static PyObject* view_item(PyObject* object, void* unused) {
  (void)unused;
  return PyLong_FromSsize_t(((view_object*)object)->item);
}

static PyObject* view_shape(PyObject* object, void* unused) {
  (void)unused;
  view_object* const self = (view_object*)object;
  return tuple_of(shape_of(self), self->dimensions);
}

static PyObject* view_strides(PyObject* object, void* unused) {
  (void)unused;
  view_object* const self = (view_object*)object;
  return tuple_of(strides_of(self), self->dimensions);
}

static PyObject* view_readonly(PyObject* object, void* unused) {
  (void)unused;
  return PyBool_FromLong(((view_object*)object)->is_readonly);
}

static PyObject* view_contiguous(PyObject* object, void* unused) {
  (void)unused;
  return PyBool_FromLong(is_contiguous((view_object*)object));
}

static PyObject* view_address(PyObject* object, void* unused) {
  (void)unused;
  view_object* const self = (view_object*)object;
  char* const at = fcp_export_memory(self->memory);
  if (at == NULL) return NULL;
  fcp_end_export(self->memory);
  return PyLong_FromVoidPtr(at + self->offset);
}

static PyMethodDef view_methods[] = {
    {"read", view_read, METH_O, NULL},
    {"write", view_write, METH_O, NULL},
    {"copy", view_copy, METH_O, NULL},
    {"dlpack", view_dlpack, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef view_members[] = {
    {"_memory", view_memory, NULL, NULL, NULL},
    {"_offset", view_offset, NULL, NULL, NULL},
    {"_address", view_address, NULL, NULL, NULL},
    {"format", view_format, NULL, NULL, NULL},
    {"itemsize", view_item, NULL, NULL, NULL},
    {"shape", view_shape, NULL, NULL, NULL},
    {"strides", view_strides, NULL, NULL, NULL},
    {"readonly", view_readonly, NULL, NULL, NULL},
    {"c_contiguous", view_contiguous, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot view_slots[] = {
    {Py_tp_doc, "Elements in shared memory, with a shape and strides."},
    {Py_tp_new, (void*)view_new},
    {Py_tp_dealloc, (void*)view_dealloc},
    {Py_tp_methods, view_methods},
    {Py_tp_getset, view_members},
    {Py_bf_getbuffer, (void*)view_get_buffer},
    {Py_bf_releasebuffer, (void*)view_release_buffer},
    {0, NULL},
};

static PyType_Spec view_spec = {
    .name = "farcall._core.View",
    .basicsize = sizeof(view_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = view_slots,
};

int fcp_add_view_type(PyObject* module) {
  view_type = (PyTypeObject*)PyType_FromSpec(&view_spec);
  return view_type == NULL ? -1 : PyModule_AddObjectRef(module, "View", (PyObject*)view_type);
}
