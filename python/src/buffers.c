// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <string.h>

// Memory of nodes, for farcall._buffer. A span is a bytes object with an fc_span.

static int span_of(PyObject* object, fc_span* span) {
  char* bytes = NULL;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &bytes, &size) != 0) return -1;
  if ((size_t)size != sizeof *span) {
    PyErr_SetString(PyExc_ValueError, "this is no span");
    return -1;
  }
  memcpy(span, bytes, sizeof *span);
  return 0;
}

static PyObject* none_or_error(fc_status status) {
  if (status != FC_OK) return fcp_raise(status);
  Py_RETURN_NONE;
}

PyObject* fcp_allocate_on(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  unsigned id = 0;
  unsigned long long bytes = 0;
  long long timeout_ns = -1;
  if (!PyArg_ParseTuple(arguments, "OIKL", &object, &id, &bytes, &timeout_ns)) return NULL;
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_node node;
  fc_span span;
  fc_status status = fc_node_at(job->job, id, &node);
  if (status != FC_OK) return fcp_raise(status);
  FCP_BEGIN_USE(job)
  status = fc_allocate(timeout_ns < 0 ? node : fc_within(node, timeout_ns), bytes, &span);
  FCP_END_USE
  if (status != FC_OK) return fcp_raise(status);
  return Py_BuildValue("(y#K)", (const char*)&span, (Py_ssize_t)sizeof span,
                       (unsigned long long)span.address);
}

PyObject* fcp_release_memory(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  PyObject* span_object = NULL;
  fc_span span;
  if (!PyArg_ParseTuple(arguments, "OO", &object, &span_object) || span_of(span_object, &span) != 0)
    return NULL;
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_job* const handle = job->job;
  fc_status status;
  FCP_BEGIN_USE(job)
  status = fc_release(handle, span);
  FCP_END_USE
  return none_or_error(status);
}

/// Copies between a buffer of Python and the part of a span that begins at an offset.
static PyObject* transfer(PyObject* arguments, bool is_put) {
  PyObject* object = NULL;
  PyObject* span_object = NULL;
  PyObject* owner = NULL;
  unsigned long long offset = 0;
  long long timeout_ns = -1;
  fc_span span;
  fc_span part;
  if (!PyArg_ParseTuple(arguments, "OOKOL", &object, &span_object, &offset, &owner, &timeout_ns) ||
      span_of(span_object, &span) != 0)
    return NULL;
  fcp_job* const job = fcp_job_in(object);
  Py_buffer view;
  if (job == NULL || PyObject_GetBuffer(owner, &view, is_put ? PyBUF_SIMPLE : PyBUF_WRITABLE) != 0)
    return NULL;
  const size_t bytes = (size_t)view.len;
  fc_job* const handle = job->job;
  fc_status status = fc_part(span, offset, bytes, &part);
  fc_future* copy = NULL;
  fc_future* left = NULL;
  fcp_end_left_copies();
  if (status == FC_OK) {
    FCP_BEGIN_WAIT(job)
    status = is_put ? fc_put_async_within(handle, part, view.buf, bytes, timeout_ns, &copy)
                    : fc_get_async_within(handle, part, view.buf, bytes, timeout_ns, &copy);
    status = fcp_await_copy(status, copy, &left);
    FCP_END_WAIT
  }
  if (left != NULL) {
    fcp_leave_copy(left, &view, NULL);
  } else {
    PyBuffer_Release(&view);
  }
  return none_or_error(status);
}

PyObject* fcp_put(PyObject* module, PyObject* arguments) {
  (void)module;
  return transfer(arguments, true);
}

PyObject* fcp_get(PyObject* module, PyObject* arguments) {
  (void)module;
  return transfer(arguments, false);
}

PyObject* fcp_copy(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  PyObject* from_object = NULL;
  PyObject* to_object = NULL;
  long long timeout_ns = -1;
  fc_span from;
  fc_span to;
  if (!PyArg_ParseTuple(arguments, "OOOL", &object, &from_object, &to_object, &timeout_ns) ||
      span_of(from_object, &from) != 0 || span_of(to_object, &to) != 0)
    return NULL;
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_job* const handle = job->job;
  fc_status status;
  fc_future* copy = NULL;
  fc_future* left = NULL;
  fcp_end_left_copies();
  FCP_BEGIN_WAIT(job)
  status = fc_copy_async_within(handle, from, to, timeout_ns, &copy);
  status = fcp_await_copy(status, copy, &left);
  FCP_END_WAIT
  if (left != NULL) fcp_leave_copy(left, NULL, NULL);
  return none_or_error(status);
}
