// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Functions that callers have sent to this process, by their numbers. A number is a hash of the
// definition, so the same function has the same number in all processes. Definitions arrive in a
// handler of farcall, while Python may be busy; the function is unpickled at its first call.

typedef struct definition {
  struct definition* next;
  uint64_t number;
  PyObject* function; ///< NULL before the first call; protected by the GIL
  size_t size;
  char bytes[];
} definition;

enum { buckets = 1024 };
static definition* _Atomic table[buckets];
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static definition* find(uint64_t number) {
  definition* each = table[number % buckets];
  while (each != NULL && each->number != number)
    each = each->next;
  return each;
}

static bool add(uint64_t number, const char* bytes, size_t size) {
  definition* const made = malloc(sizeof *made + size);
  if (made == NULL) return false;
  made->number = number;
  made->function = NULL;
  made->size = size;
  memcpy(made->bytes, bytes, size);
  pthread_mutex_lock(&adding);
  if (find(number) != NULL) {
    free(made);
  } else {
    made->next = table[number % buckets];
    table[number % buckets] = made;
  }
  pthread_mutex_unlock(&adding);
  return true;
}

int fcp_define(uint64_t number, const char* bytes, size_t size) {
  if (add(number, bytes, size)) return 0;
  PyErr_NoMemory();
  return -1;
}

static void define(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  uint64_t number = 0;
  if (size < sizeof number) {
    fc_reply_error(reply, "ValueError", "a definition without a number");
    return;
  }
  memcpy(&number, bytes, sizeof number);
  if (!add(number, (const char*)bytes + sizeof number, size - sizeof number))
    fc_reply_error(reply, "MemoryError", "no memory for the definition of a function");
}

static const char define_name[] = "farcall.python.define";

int fcp_register_definitions(void) {
  const fc_status status = fc_register(define_name, &define, NULL);
  if (status == FC_OK) return 0;
  PyErr_SetString(PyExc_ImportError, fc_error_text());
  return -1;
}

fc_function fcp_define_function(void) {
  static fc_function number;
  if (number == 0) number = fc_named(define_name);
  return number;
}

PyObject* fcp_function(uint64_t number) {
  definition* found = find(number);
  if (found == NULL) return NULL;
  if (found->function == NULL) {
    static PyObject* load;
    if (load == NULL) {
      PyObject* const module = PyImport_ImportModule("farcall._functions");
      if (module == NULL) return NULL;
      load = PyObject_GetAttrString(module, "load");
      Py_DECREF(module);
      if (load == NULL) return NULL;
    }
    PyObject* const loaded =
        PyObject_CallFunction(load, "y#", found->bytes, (Py_ssize_t)found->size);
    if (loaded == NULL) return NULL;
    // Meanwhile, another thread may have loaded the function, or removed its definition.
    found = find(number);
    if (found == NULL) return loaded;
    if (found->function == NULL) {
      found->function = loaded;
    } else {
      Py_DECREF(loaded);
    }
  }
  Py_INCREF(found->function);
  return found->function;
}

PyObject* fcp_set_local(PyObject* module, PyObject* arguments) {
  (void)module;
  unsigned long long number = 0;
  PyObject* function = NULL;
  if (!PyArg_ParseTuple(arguments, "KO", &number, &function)) return NULL;
  if (!add(number, "", 0)) return PyErr_NoMemory();
  definition* const found = find(number);
  PyObject* const old = found->function;
  Py_INCREF(function);
  found->function = function;
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyObject* fcp_undefine(PyObject* module, PyObject* number_object) {
  (void)module;
  const unsigned long long number = PyLong_AsUnsignedLongLong(number_object);
  if (PyErr_Occurred()) return NULL;
  pthread_mutex_lock(&adding);
  definition* before = NULL;
  definition* found = table[number % buckets];
  while (found != NULL && found->number != number) {
    before = found;
    found = found->next;
  }
  if (found != NULL && before == NULL) table[number % buckets] = found->next;
  if (found != NULL && before != NULL) before->next = found->next;
  pthread_mutex_unlock(&adding);
  // Other threads look functions up only with the GIL.
  if (found != NULL) {
    Py_XDECREF(found->function);
    free(found);
  }
  Py_RETURN_NONE;
}
