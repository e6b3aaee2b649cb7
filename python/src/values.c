// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <stdlib.h>
#include <string.h>

// The plain encoding of None, bool, int, float, str, bytes and flat tuples of them. Each value is a
// tag of one byte and its content, without alignment.

enum tag {
  TAG_NONE,
  TAG_FALSE,
  TAG_TRUE,
  TAG_INT,
  TAG_FLOAT,
  TAG_STR,
  TAG_BYTES,
  TAG_TUPLE,
  TAG_LONG_STR,  ///< text in a slot of the message, whose number follows
  TAG_LONG_BYTES ///< like TAG_LONG_STR, for bytes
};

static const Py_ssize_t max_tuple = 255;

void fcp_bytes_init(fcp_bytes* bytes) {
  bytes->data = bytes->near;
  bytes->size = 0;
  bytes->capacity = sizeof bytes->near;
}

void fcp_bytes_clear(fcp_bytes* bytes) {
  if (bytes->data != bytes->near) free(bytes->data);
}

static bool grow(fcp_bytes* to, size_t size) {
  size_t capacity = to->capacity * 2;
  if (capacity < to->size + size) capacity = to->size + size;
  char* const data = malloc(capacity);
  if (data == NULL) return false;
  memcpy(data, to->data, to->size);
  fcp_bytes_clear(to);
  to->data = data;
  to->capacity = capacity;
  return true;
}

bool fcp_append_raw(fcp_bytes* to, const void* bytes, size_t size) {
  if (to->capacity - to->size < size && !grow(to, size)) return false;
  if (size != 0) memcpy(to->data + to->size, bytes, size);
  to->size += size;
  return true;
}

int fcp_append(fcp_bytes* to, const void* bytes, size_t size) {
  if (fcp_append_raw(to, bytes, size)) return 0;
  PyErr_NoMemory();
  return -1;
}

int fcp_put_call_of_int(fcp_bytes* to, uint64_t function, int64_t number) {
  const fcp_prefix prefix = {function, 0};
  const fcp_header header = {.kind = FCP_PLAIN, .values = 1};
  const char tag = TAG_INT;
  return fcp_append_raw(to, &prefix, sizeof prefix) && fcp_append_raw(to, &header, sizeof header) &&
                 fcp_append_raw(to, &tag, 1) && fcp_append_raw(to, &number, sizeof number)
             ? 0
             : -1;
}

static int put(fcp_bytes* to, enum tag tag, const void* bytes, size_t size) {
  const char byte = (char)tag;
  return fcp_append(to, &byte, 1) != 0 || fcp_append(to, bytes, size) != 0 ? -1 : 1;
}

/// Appends a text that is sent in a slot.
static int put_long_text(fcp_message* m, enum tag tag, PyObject* owner, const char* text,
                         Py_ssize_t size) {
  const uint32_t number = (uint32_t)m->view_count;
  Py_buffer* const views = realloc(m->views, (m->view_count + 1) * sizeof *views);
  if (views == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  m->views = views;
  if (PyBuffer_FillInfo(&views[number], owner, (char*)text, size, 1, PyBUF_SIMPLE) != 0) return -1;
  ++m->view_count;
  return put(&m->head, tag, &number, sizeof number);
}

static int put_text(fcp_message* m, enum tag tag, PyObject* owner, const char* text,
                    Py_ssize_t size) {
  if (size >= FCP_LARGE) {
    return put_long_text(m, tag == TAG_STR ? TAG_LONG_STR : TAG_LONG_BYTES, owner, text, size);
  }
  const uint32_t length = (uint32_t)size;
  if (put(&m->head, tag, &length, sizeof length) < 0) return -1;
  return fcp_append(&m->head, text, (size_t)size) != 0 ? -1 : 1;
}

static int put_scalar(fcp_message* m, PyObject* value) {
  fcp_bytes* const to = &m->head;
  if (value == Py_None) return put(to, TAG_NONE, NULL, 0);
  PyTypeObject* const type = Py_TYPE(value);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow != 0 ? 0 : put(to, TAG_INT, &number, sizeof number);
  }
  if (type == &PyFloat_Type) {
    const double number = PyFloat_AsDouble(value);
    return put(to, TAG_FLOAT, &number, sizeof number);
  }
  if (type == &PyUnicode_Type) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text != NULL) return put_text(m, TAG_STR, value, text, size);
    // Pickles can contain texts that are no valid UTF-8.
    PyErr_Clear();
    return 0;
  }
  if (type == &PyBool_Type) return put(to, value == Py_True ? TAG_TRUE : TAG_FALSE, NULL, 0);
  if (type == &PyBytes_Type) {
    char* bytes = NULL;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(value, &bytes, &size) != 0) return -1;
    return put_text(m, TAG_BYTES, value, bytes, size);
  }
  return 0;
}

size_t fcp_put_small(char* to, PyObject* value) {
  PyTypeObject* const type = Py_TYPE(value);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return 0;
    to[0] = TAG_INT;
    memcpy(to + 1, &number, sizeof number);
    return 1 + sizeof number;
  }
  if (type == &PyFloat_Type) {
    const double number = PyFloat_AsDouble(value);
    to[0] = TAG_FLOAT;
    memcpy(to + 1, &number, sizeof number);
    return 1 + sizeof number;
  }
  if (type == &PyBool_Type) {
    to[0] = value == Py_True ? TAG_TRUE : TAG_FALSE;
    return 1;
  }
  if (type != &PyTuple_Type || PyTuple_Size(value) != 0) return 0;
  to[0] = TAG_TUPLE;
  to[1] = 0;
  return 2;
}

int fcp_put_value(fcp_message* to, PyObject* value) {
  if (Py_TYPE(value) != &PyTuple_Type) return put_scalar(to, value);
  const Py_ssize_t count = PyTuple_Size(value);
  if (count > max_tuple) return 0;
  const unsigned char length = (unsigned char)count;
  int done = put(&to->head, TAG_TUPLE, &length, 1);
  for (Py_ssize_t i = 0; done == 1 && i < count; ++i)
    done = put_scalar(to, PyTuple_GetItem(value, i));
  return done;
}

static PyObject* malformed(void) {
  PyErr_SetString(PyExc_ValueError, "farcall: a message ends too early, or has an unknown tag");
  return NULL;
}

static bool get_bytes(const char** at, const char* end, void* to, size_t size) {
  if ((size_t)(end - *at) < size) return false;
  memcpy(to, *at, size);
  *at += size;
  return true;
}

/// Returns the text or the bytes in a slot.
static PyObject* get_long_text(const fcp_arrived* message, enum tag tag, uint32_t slot) {
  PyObject* const part = fcp_part_of(message, slot);
  if (part == NULL) return NULL;
  Py_buffer view;
  PyObject* text = NULL;
  if (PyObject_GetBuffer(part, &view, PyBUF_SIMPLE) == 0) {
    text = tag == TAG_LONG_STR ? PyUnicode_FromStringAndSize(view.buf, view.len)
                               : PyBytes_FromStringAndSize(view.buf, view.len);
    PyBuffer_Release(&view);
  }
  Py_DECREF(part);
  return text;
}

static PyObject* get_tuple(const fcp_arrived* message, const char** at, const char* end) {
  unsigned char count = 0;
  if (!get_bytes(at, end, &count, 1)) return malformed();
  PyObject* const tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple != NULL && i < count; ++i) {
    PyObject* const value =
        *at < end && **at == TAG_TUPLE ? malformed() : fcp_get_value(message, at, end);
    if (value == NULL) {
      Py_DECREF(tuple);
      return NULL;
    }
    PyTuple_SetItem(tuple, i, value);
  }
  return tuple;
}

PyObject* fcp_get_value(const fcp_arrived* message, const char** at, const char* end) {
  if (*at >= end) return malformed();
  const enum tag tag = (enum tag)(unsigned char)*(*at)++;
  switch (tag) {
  case TAG_NONE:
    Py_RETURN_NONE;
  case TAG_FALSE:
    Py_RETURN_FALSE;
  case TAG_TRUE:
    Py_RETURN_TRUE;
  case TAG_INT: {
    long long number = 0;
    return get_bytes(at, end, &number, sizeof number) ? PyLong_FromLongLong(number) : malformed();
  }
  case TAG_FLOAT: {
    double number = 0;
    return get_bytes(at, end, &number, sizeof number) ? PyFloat_FromDouble(number) : malformed();
  }
  case TAG_STR:
  case TAG_BYTES: {
    uint32_t size = 0;
    if (!get_bytes(at, end, &size, sizeof size) || (size_t)(end - *at) < size) return malformed();
    const char* const text = *at;
    *at += size;
    return tag == TAG_STR ? PyUnicode_FromStringAndSize(text, (Py_ssize_t)size)
                          : PyBytes_FromStringAndSize(text, (Py_ssize_t)size);
  }
  case TAG_TUPLE:
    return get_tuple(message, at, end);
  case TAG_LONG_STR:
  case TAG_LONG_BYTES: {
    uint32_t slot = 0;
    return get_bytes(at, end, &slot, sizeof slot) ? get_long_text(message, tag, slot) : malformed();
  }
  }
  return malformed();
}
