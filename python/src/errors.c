// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <string.h>

static PyObject*
    error_of_status; ///< error_of_status(status, text, node, type) returns an exception
static PyObject* error_of_remote; ///< error_of_remote(description, node) returns an exception

PyObject* fcp_set_errors(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!PyArg_ParseTuple(arguments, "OO", &error_of_status, &error_of_remote)) return NULL;
  Py_INCREF(error_of_status);
  Py_INCREF(error_of_remote);
  Py_RETURN_NONE;
}

static PyObject* raise_object(PyObject* exception) {
  if (exception != NULL) {
    PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
    Py_DECREF(exception);
  }
  return NULL;
}

/// Returns a text, of which any bytes may have come from another process.
static PyObject* text_of(const char* bytes) {
  return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "replace");
}

PyObject* fcp_raise(fc_status status) {
  if (PyErr_Occurred()) return NULL;
  // N owns the objects, and fails for NULL.
  return raise_object(PyObject_CallFunction(error_of_status, "sNIN", fc_status_name(status),
                                            text_of(fc_error_text()), (unsigned)fc_error_node(),
                                            text_of(fc_error_type())));
}

void fcp_raise_text(const char* status, PyObject* text) {
  raise_object(PyObject_CallFunction(error_of_status, "sOI", status, text, (unsigned)FC_NO_NODE));
}

void fcp_raise_failed(const char* text, uint32_t node) {
  raise_object(
      PyObject_CallFunction(error_of_status, "ssI", "FC_NODE_FAILED", text, (unsigned)node));
}

PyObject* fcp_raise_remote(PyObject* description, uint32_t node) {
  return raise_object(PyObject_CallFunction(error_of_remote, "OI", description, (unsigned)node));
}

PyObject* fcp_take_exception(void) {
  PyObject* type = NULL;
  PyObject* value = NULL;
  PyObject* traceback = NULL;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != NULL && traceback != NULL) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
}
