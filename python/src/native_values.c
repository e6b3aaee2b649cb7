// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Arguments and results of functions in C, and messages to handlers. Such a message is the struct
// of the arguments in C, followed by the bytes of a last parameter s.

size_t fcp_size_of(char letter) {
  switch (letter) {
  case 'b':
  case 'B':
  case '?':
    return 1;
  case 'h':
  case 'H':
    return sizeof(short);
  case 'i':
  case 'I':
  case 'f':
    return sizeof(int);
  case 'l':
  case 'L':
  case 'q':
  case 'Q':
  case 'n':
  case 'N':
  case 'd':
  case 'p':
    return sizeof(int64_t);
  default:
    return 0;
  }
}

// ---- signatures ---------------------------------------------------------------------------------

static int wrong_signature(const char* text, const char* what) {
  PyErr_Format(PyExc_ValueError,
               "the signature \"%s\" %s; it has the letter of the result and, in parentheses, the "
               "letters of "
               "the parameters, as in \"d(di)\"",
               text, what);
  return -1;
}

/// Copies letters up to `end`, without spaces. Returns NULL for a letter that is not in `known`.
static const char* copy_letters(const char* at, char end, const char* known, char* to,
                                size_t most) {
  size_t count = 0;
  for (; *at != end; ++at) {
    if (*at == ' ') continue;
    if (*at == 0 || strchr(known, *at) == NULL || count + 1 >= most) return NULL;
    to[count++] = *at;
  }
  to[count] = 0;
  return at + 1;
}

/// True if s is the last letter, or no letter.
static bool ends_with_bytes(const char* letters) {
  const char* const s = strchr(letters, 's');
  return s == NULL || s[1] == 0;
}

int fcp_read_signature(fcp_signature* to, const char* text, bool is_handler) {
  const char* at = copy_letters(text, '(', is_handler ? "bBhHiIlLqQnNfd?psv" : "bBhHiIlLqQnNfd?pv",
                                to->results, sizeof to->results);
  if (at == NULL) return wrong_signature(text, "has no valid result");
  at = copy_letters(at, ')', is_handler ? "bBhHiIlLqQnNfd?ps" : "bBhHiIlLqQnNfd?psox",
                    to->parameters, sizeof to->parameters);
  if (at == NULL) return wrong_signature(text, "has an invalid parameter");
  while (*at == ' ')
    ++at;
  if (*at != 0) return wrong_signature(text, "goes on after the parameters");
  const size_t results = strlen(to->results);
  if (results == 0 || (results > 1 && (!is_handler || strchr(to->results, 'v') != NULL)))
    return wrong_signature(text, "needs one result, v for none");
  if (is_handler && (!ends_with_bytes(to->results) || !ends_with_bytes(to->parameters)))
    return wrong_signature(text, "has an s that is not the last one");
  to->count = strlen(to->parameters);
  to->has_buffers = strpbrk(to->parameters, "sox") != NULL;
  return 0;
}

// ---- arguments ----------------------------------------------------------------------------------

/// Returns an integer between `low` and `high`.
static int put_signed(PyObject* object, long long low, long long high, long long* to) {
  *to = PyLong_AsLongLong(object);
  if (*to == -1 && PyErr_Occurred()) return -1;
  if (*to >= low && *to <= high) return 0;
  PyErr_Format(PyExc_OverflowError, "must be from %lld to %lld", low, high);
  return -1;
}

static int put_unsigned(PyObject* object, unsigned long long high, unsigned long long* to) {
  PyObject* const number = PyNumber_Index(object);
  if (number == NULL) return -1;
  *to = PyLong_AsUnsignedLongLong(number);
  Py_DECREF(number);
  if (PyErr_Occurred()) return -1;
  if (*to <= high) return 0;
  PyErr_Format(PyExc_OverflowError, "must be from 0 to %llu", high);
  return -1;
}

/// An address on the node: a number, None, or an object with an attribute `address`.
static int put_address(PyObject* object, fc_value* to) {
  unsigned long long number = 0;
  to->p = 0;
  if (object == Py_None) return 0;
  if (PyIndex_Check(object)) {
    if (put_unsigned(object, UINT64_MAX, &number) != 0) return -1;
  } else {
    PyObject* const address = PyObject_GetAttrString(object, "address");
    if (address == NULL) {
      PyErr_SetString(PyExc_TypeError,
                      "must be an address on the node: an int, None, or memory of the node");
      return -1;
    }
    const int done = put_unsigned(address, UINT64_MAX, &number);
    Py_DECREF(address);
    if (done != 0) return -1;
  }
  to->p = number;
  return 0;
}

static int put_number(PyObject* object, char letter, fc_value* to) {
  long long s = 0;
  unsigned long long u = 0;
  int done = 0;
  switch (letter) {
  case 'b':
    done = put_signed(object, SCHAR_MIN, SCHAR_MAX, &s);
    to->b = (signed char)s;
    return done;
  case 'B':
    done = put_unsigned(object, UCHAR_MAX, &u);
    to->B = (unsigned char)u;
    return done;
  case 'h':
    done = put_signed(object, SHRT_MIN, SHRT_MAX, &s);
    to->h = (short)s;
    return done;
  case 'H':
    done = put_unsigned(object, USHRT_MAX, &u);
    to->H = (unsigned short)u;
    return done;
  case 'i':
    done = put_signed(object, INT_MIN, INT_MAX, &s);
    to->i = (int)s;
    return done;
  case 'I':
    done = put_unsigned(object, UINT_MAX, &u);
    to->I = (unsigned)u;
    return done;
  case 'l':
  case 'q':
  case 'n':
    done = put_signed(object, LLONG_MIN, LLONG_MAX, &s);
    to->q = s;
    return done;
  default:
    done = put_unsigned(object, ULLONG_MAX, &u);
    to->Q = u;
    return done;
  }
}

/// Sets the bytes for a parameter s, o or x.
static int put_buffer(PyObject* object, char letter, fcp_values* to, fc_value* value) {
  value->s = (fc_in_bytes){NULL, 0};
  if (object == Py_None) return 0;
  if (letter == 's' && PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    value->s.bytes = PyUnicode_AsUTF8AndSize(object, &size);
    value->s.size = (size_t)size;
    return value->s.bytes == NULL ? -1 : 0;
  }
  Py_buffer* const view = &to->views[to->view_count];
  if (PyObject_GetBuffer(object, view, letter == 's' ? PyBUF_SIMPLE : PyBUF_WRITABLE) != 0)
    return -1;
  ++to->view_count;
  value->o = (fc_out_bytes){view->buf, (size_t)view->len};
  to->buffer_bytes += (size_t)view->len;
  return 0;
}

static int put(PyObject* object, char letter, fcp_values* to, fc_value* value) {
  switch (letter) {
  case 'd':
  case 'f': {
    const double number = PyFloat_AsDouble(object);
    if (number == -1 && PyErr_Occurred()) return -1;
    if (letter == 'd') {
      value->d = number;
    } else if (isfinite(number) && fabs(number) > FLT_MAX) {
      PyErr_SetString(PyExc_OverflowError, "is too large for a float of C");
      return -1;
    } else {
      value->f = (float)number;
    }
    return 0;
  }
  case '?': {
    const int is_true = PyObject_IsTrue(object);
    value->t = is_true > 0;
    return is_true < 0 ? -1 : 0;
  }
  case 'p':
    return put_address(object, value);
  case 's':
  case 'o':
  case 'x':
    return put_buffer(object, letter, to, value);
  default:
    return put_number(object, letter, value);
  }
}

/// Puts the number of the argument and the name of the function before the text of the exception.
static void explain(size_t number, PyObject* name) {
  PyObject* const error = fcp_take_exception();
  if (error == NULL) return;
  PyObject* const types[] = {PyExc_TypeError, PyExc_OverflowError, PyExc_BufferError,
                             PyExc_ValueError};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (!PyErr_GivenExceptionMatches(error, types[i])) continue;
    PyErr_Format(types[i], "argument %zu of %U(): %S", number, name, error);
    Py_DECREF(error);
    return;
  }
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_DECREF(error);
}

int fcp_values_of(fcp_values* to, const fcp_signature* signature, PyObject* const* arguments,
                  size_t count, PyObject* name) {
  to->values = to->near;
  to->views = NULL;
  to->view_count = 0;
  to->buffer_bytes = 0;
  if (count != signature->count) {
    PyErr_Format(PyExc_TypeError, "%U() takes %zu argument%s (%zu given)", name, signature->count,
                 signature->count == 1 ? "" : "s", count);
    return -1;
  }
  if (count > sizeof to->near / sizeof *to->near) {
    to->values = calloc(count, sizeof *to->values);
    if (to->values == NULL) goto no_memory;
  }
  if (signature->has_buffers) {
    to->views = calloc(count, sizeof *to->views);
    if (to->views == NULL) goto no_memory;
  }
  for (size_t i = 0; i < count; ++i) {
    if (put(arguments[i], signature->parameters[i], to, &to->values[i]) == 0) continue;
    explain(i + 1, name);
    fcp_values_clear(to);
    return -1;
  }
  return 0;
no_memory:
  PyErr_NoMemory();
  fcp_values_clear(to);
  return -1;
}

void fcp_values_clear(fcp_values* values) {
  for (size_t i = 0; i < values->view_count; ++i)
    PyBuffer_Release(&values->views[i]);
  free(values->views);
  if (values->values != values->near) free(values->values);
  values->views = NULL;
  values->view_count = 0;
  values->values = values->near;
}

// ---- results ------------------------------------------------------------------------------------

PyObject* fcp_object_of(char letter, const fc_value* value) {
  switch (letter) {
  case 'd':
    return PyFloat_FromDouble(value->d);
  case 'f':
    return PyFloat_FromDouble((double)value->f);
  case '?':
    // Other processes may send numbers that are no bool of C.
    return PyBool_FromLong(value->B != 0);
  case 'b':
    return PyLong_FromLong(value->b);
  case 'B':
    return PyLong_FromLong(value->B);
  case 'h':
    return PyLong_FromLong(value->h);
  case 'H':
    return PyLong_FromLong(value->H);
  case 'i':
    return PyLong_FromLong(value->i);
  case 'I':
    return PyLong_FromUnsignedLong(value->I);
  case 'l':
  case 'q':
  case 'n':
    return PyLong_FromLongLong(value->q);
  case 'L':
  case 'Q':
  case 'N':
  case 'p':
    return PyLong_FromUnsignedLongLong(value->Q);
  default:
    Py_RETURN_NONE;
  }
}

// ---- messages to handlers -----------------------------------------------------------------------

static size_t aligned(size_t at, size_t alignment) {
  return alignment == 0 ? at : (at + alignment - 1) / alignment * alignment;
}

/// Returns the size of the struct with these members. Only a last s has no size.
static size_t struct_size(const char* letters) {
  size_t at = 0;
  size_t most = 1;
  for (; *letters != 0; ++letters) {
    const size_t size = fcp_size_of(*letters);
    if (*letters == 's') return at;
    if (size > most) most = size;
    at = aligned(at, size) + size;
  }
  return aligned(at, most);
}

int fcp_pack(fcp_bytes* to, const fcp_signature* signature, const fcp_values* values) {
  static const char zeros[8];
  for (size_t i = 0; i < signature->count; ++i) {
    const char letter = signature->parameters[i];
    if (letter == 's') {
      if (fcp_append(to, values->values[i].s.bytes, values->values[i].s.size) != 0) return -1;
      return 0;
    }
    const size_t size = fcp_size_of(letter);
    if (fcp_append(to, zeros, aligned(to->size, size) - to->size) != 0 ||
        fcp_append(to, &values->values[i], size) != 0)
      return -1;
  }
  return fcp_append(to, zeros, struct_size(signature->parameters) - to->size);
}

PyObject* fcp_unpack(const fcp_signature* signature, const char* bytes, size_t size,
                     PyObject* name) {
  const char* const letters = signature->results;
  const size_t count = strlen(letters);
  const size_t least = struct_size(letters);
  const bool has_bytes = count != 0 && letters[count - 1] == 's';
  if (size < least || (size > least && !has_bytes && letters[0] != 'v')) {
    PyErr_Format(PyExc_ValueError, "the handler %U has replied with %zu bytes, and \"%s\" has %zu",
                 name, size, letters, least);
    return NULL;
  }
  PyObject* const tuple = count > 1 ? PyTuple_New((Py_ssize_t)count) : NULL;
  if (count > 1 && tuple == NULL) return NULL;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    fc_value value = {.Q = 0};
    const size_t bytes_of_one = fcp_size_of(letters[i]);
    at = letters[i] == 's' ? least : aligned(at, bytes_of_one);
    if (letters[i] != 's') memcpy(&value, bytes + at, bytes_of_one);
    PyObject* const one = letters[i] == 's'
                              ? PyBytes_FromStringAndSize(bytes + at, (Py_ssize_t)(size - at))
                              : fcp_object_of(letters[i], &value);
    at += bytes_of_one;
    if (tuple == NULL) return one;
    if (one == NULL) {
      Py_DECREF(tuple);
      return NULL;
    }
    PyTuple_SetItem(tuple, (Py_ssize_t)i, one);
  }
  if (tuple != NULL) return tuple;
  Py_RETURN_NONE;
}
