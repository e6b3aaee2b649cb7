#include "core.h"

#include <stdlib.h>
#include <string.h>

// A pickled message has, after the header, the size of the pickle, the sizes of the buffers, the
// pickle, and each buffer at a multiple of 16.

enum { alignment = 16 };

static PyObject* dumps;              ///< dumps(object) returns a list of the pickle and its buffers
static PyObject* loads;              ///< loads(pickle) returns the object
static PyObject* loads_with_buffers; ///< loads_with_buffers(pickle, buffers) returns the object

PyObject* fcp_set_pickling(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!PyArg_ParseTuple(arguments, "OOO", &dumps, &loads, &loads_with_buffers)) return NULL;
  Py_INCREF(dumps);
  Py_INCREF(loads);
  Py_INCREF(loads_with_buffers);
  Py_RETURN_NONE;
}

static void init(fcp_message* m) {
  fcp_bytes_init(&m->head);
  m->parts = NULL;
  m->part_count = 0;
  m->total = 0;
  m->views = NULL;
  m->view_count = 0;
  m->pickled = NULL;
}

static int finish_plain(fcp_message* m) {
  m->one.at = m->head.data;
  m->one.size = m->head.size;
  m->parts = &m->one;
  m->part_count = 1;
  m->total = m->head.size;
  return 0;
}

void fcp_message_clear(fcp_message* m) {
  for (size_t i = 0; i < m->view_count; ++i)
    PyBuffer_Release(&m->views[i]);
  free(m->views);
  if (m->parts != &m->one) free(m->parts);
  Py_XDECREF(m->pickled);
  fcp_bytes_clear(&m->head);
}

static size_t padding(size_t size) { return (alignment - size % alignment) % alignment; }

/// Appends the pickle of `object`, after `m->head` has got what precedes the header.
static int put_pickle(fcp_message* m, enum fcp_kind kind, PyObject* object) {
  static const char zeros[alignment];
  m->pickled = PyObject_CallFunctionObjArgs(dumps, object, NULL);
  if (m->pickled == NULL) return -1;
  const size_t count = (size_t)PyList_Size(m->pickled);
  m->views = calloc(count, sizeof *m->views);
  m->parts = calloc(2 * count + 1, sizeof *m->parts);
  if (m->views == NULL || m->parts == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  const fcp_header header = {(uint32_t)kind, (uint32_t)(count - 1)};
  if (fcp_append(&m->head, &header, sizeof header) != 0) return -1;
  for (; m->view_count < count; ++m->view_count) {
    Py_buffer* const view = &m->views[m->view_count];
    PyObject* const owner = PyList_GetItem(m->pickled, (Py_ssize_t)m->view_count);
    if (PyObject_GetBuffer(owner, view, PyBUF_SIMPLE) != 0) return -1;
    const uint64_t size = (uint64_t)view->len;
    if (fcp_append(&m->head, &size, sizeof size) != 0) {
      ++m->view_count;
      return -1;
    }
  }
  m->total = m->head.size;
  m->parts[m->part_count++] = (fc_bytes){m->head.data, m->head.size};
  for (size_t i = 0; i < count; ++i) {
    const size_t pad = i == 0 ? 0 : padding(m->total);
    if (pad != 0) m->parts[m->part_count++] = (fc_bytes){zeros, pad};
    const size_t size = (size_t)m->views[i].len;
    m->parts[m->part_count++] = (fc_bytes){m->views[i].buf, size};
    m->total += pad + size;
  }
  return 0;
}

static bool has_no_items(PyObject* keywords) {
  return keywords == NULL || keywords == Py_None || PyDict_Size(keywords) == 0;
}

/// Appends the header and the arguments in the plain encoding. Returns 0 if this is not possible.
static int put_plain(fcp_bytes* head, PyObject* arguments) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  const fcp_header header = {FCP_PLAIN, (uint32_t)count};
  if (fcp_append(head, &header, sizeof header) != 0) return -1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int done = fcp_put_value(head, PyTuple_GetItem(arguments, i));
    if (done != 1) return done;
  }
  return 1;
}

int fcp_message_of_call(fcp_message* m, uint64_t function, PyObject* arguments,
                        PyObject* keywords) {
  init(m);
  const fcp_prefix prefix = {function, 0};
  if (fcp_append(&m->head, &prefix, sizeof prefix) != 0) return -1;
  if (has_no_items(keywords)) {
    const int plain = put_plain(&m->head, arguments);
    if (plain < 0) return -1;
    if (plain == 1) return finish_plain(m);
    m->head.size = sizeof prefix;
  }
  PyObject* const both = PyTuple_Pack(2, arguments, keywords == NULL ? Py_None : keywords);
  const int done = both == NULL ? -1 : put_pickle(m, FCP_PICKLED, both);
  Py_XDECREF(both);
  return done;
}

char* fcp_joined(const fcp_message* m) {
  char* const bytes = malloc(m->total != 0 ? m->total : 1);
  if (bytes == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  char* at = bytes;
  for (size_t i = 0; i < m->part_count; ++i) {
    if (m->parts[i].size != 0) memcpy(at, m->parts[i].at, m->parts[i].size);
    at += m->parts[i].size;
  }
  return bytes;
}

void fcp_number_call(fcp_message* m, uint64_t call) {
  memcpy(m->head.data + offsetof(fcp_prefix, call), &call, sizeof call);
}

int fcp_message_of_result(fcp_message* m, PyObject* result) {
  init(m);
  if (result == Py_None) return finish_plain(m);
  const fcp_header header = {FCP_PLAIN, 1};
  if (fcp_append(&m->head, &header, sizeof header) != 0) return -1;
  const int plain = fcp_put_value(&m->head, result);
  if (plain < 0) return -1;
  if (plain == 1) return finish_plain(m);
  m->head.size = 0;
  return put_pickle(m, FCP_PICKLED, result);
}

int fcp_message_of_object(fcp_message* m, enum fcp_kind kind, PyObject* object) {
  init(m);
  return put_pickle(m, kind, object);
}

static PyObject* malformed(void) {
  PyErr_SetString(PyExc_ValueError, "farcall: a message is shorter than its header says");
  return NULL;
}

/// Returns the object of a pickle. `at` is the offset after the header.
static PyObject* get_pickle(const char* bytes, size_t size, size_t at, uint32_t count) {
  const size_t sizes_bytes = ((size_t)count + 1) * sizeof(uint64_t);
  if (size - at < sizes_bytes) return malformed();
  const char* const sizes = bytes + at;
  at += sizes_bytes;
  PyObject* const buffers = PyList_New((Py_ssize_t)count);
  PyObject* pickle = NULL;
  PyObject* object = NULL;
  if (buffers == NULL) return NULL;
  for (uint32_t i = 0; i <= count; ++i) {
    uint64_t length = 0;
    memcpy(&length, sizes + i * sizeof length, sizeof length);
    const size_t pad = i == 0 ? 0 : padding(at);
    if (size - at < pad || size - at - pad < length) {
      malformed();
      goto end;
    }
    at += pad;
    // Copy the buffers, because objects such as arrays keep them and may change them.
    PyObject* const part =
        i == 0 ? PyMemoryView_FromMemory((char*)bytes + at, (Py_ssize_t)length, PyBUF_READ)
               : PyByteArray_FromStringAndSize(bytes + at, (Py_ssize_t)length);
    if (part == NULL) goto end;
    if (i == 0) {
      pickle = part;
    } else {
      PyList_SetItem(buffers, (Py_ssize_t)i - 1, part);
    }
    at += length;
  }
  object = count == 0 ? PyObject_CallFunctionObjArgs(loads, pickle, NULL)
                      : PyObject_CallFunctionObjArgs(loads_with_buffers, pickle, buffers, NULL);
end:
  Py_XDECREF(pickle);
  Py_DECREF(buffers);
  return object;
}

PyObject* fcp_arguments_of(const char* bytes, size_t size) {
  fcp_header header;
  size_t at = sizeof(fcp_prefix) + sizeof header;
  if (size < at) return malformed();
  memcpy(&header, bytes + sizeof(fcp_prefix), sizeof header);
  if (header.kind != FCP_PLAIN) return get_pickle(bytes, size, at, header.count);
  PyObject* const arguments = PyTuple_New((Py_ssize_t)header.count);
  if (arguments == NULL) return NULL;
  const char* from = bytes + at;
  for (uint32_t i = 0; i < header.count; ++i) {
    PyObject* const value = fcp_get_value(&from, bytes + size);
    if (value == NULL) {
      Py_DECREF(arguments);
      return NULL;
    }
    PyTuple_SetItem(arguments, (Py_ssize_t)i, value);
  }
  PyObject* const both = PyTuple_Pack(2, arguments, Py_None);
  Py_DECREF(arguments);
  return both;
}

PyObject* fcp_result_of(const char* bytes, size_t size, enum fcp_kind* kind) {
  *kind = FCP_PLAIN;
  if (size == 0) Py_RETURN_NONE;
  fcp_header header;
  if (size < sizeof header) return malformed();
  memcpy(&header, bytes, sizeof header);
  *kind = (enum fcp_kind)header.kind;
  const char* at = bytes + sizeof header;
  switch (*kind) {
  case FCP_PLAIN:
    return fcp_get_value(&at, bytes + size);
  case FCP_PICKLED:
  case FCP_EXCEPTION:
    return get_pickle(bytes, size, sizeof header, header.count);
  case FCP_UNDEFINED:
  case FCP_RETURNED:
  case FCP_STOPPED:
    Py_RETURN_NONE;
  }
  return malformed();
}
