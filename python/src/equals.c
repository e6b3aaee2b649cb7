// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <farcall/c/equals.h>

// Jobs of equals: collectives, and calls that this node takes.

/// take_part(describe): registers the calls of Python functions that this node takes.
PyObject* fcp_take_part(PyObject* module, PyObject* describe) {
  (void)module;
  const fc_status status = fcp_register_calls(describe);
  if (status != FC_OK) return fcp_raise(status);
  Py_RETURN_NONE;
}

static PyObject* none_or_error(fc_status status) {
  if (status != FC_OK) return fcp_raise(status);
  Py_RETURN_NONE;
}

PyObject* fcp_barrier(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  long long timeout_ns = 0;
  if (!PyArg_ParseTuple(arguments, "OL", &object, &timeout_ns)) return NULL;
  const fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_job* const handle = job->job;
  fc_status status;
  Py_BEGIN_ALLOW_THREADS
  status = fc_barrier(handle, timeout_ns);
  Py_END_ALLOW_THREADS
  return none_or_error(status);
}

PyObject* fcp_all_gather(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  PyObject* all = NULL;
  Py_buffer mine;
  long long timeout_ns = 0;
  if (!PyArg_ParseTuple(arguments, "Oy*L", &object, &mine, &timeout_ns)) return NULL;
  const fcp_job* const job = fcp_job_in(object);
  const uint32_t count = job == NULL ? 0 : fc_job_size(job->job);
  if (job != NULL && mine.len > PY_SSIZE_T_MAX / (Py_ssize_t)count) {
    PyErr_NoMemory();
  } else if (job != NULL) {
    all = PyByteArray_FromStringAndSize(NULL, mine.len * (Py_ssize_t)count);
  }
  if (all != NULL) {
    fc_job* const handle = job->job;
    char* const to = PyByteArray_AsString(all);
    fc_status status;
    Py_BEGIN_ALLOW_THREADS
    status = fc_all_gather(handle, mine.buf, (size_t)mine.len, to, timeout_ns);
    Py_END_ALLOW_THREADS
    if (status != FC_OK) {
      Py_CLEAR(all);
      fcp_raise(status);
    }
  }
  PyBuffer_Release(&mine);
  return all;
}

PyObject* fcp_broadcast(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  PyObject* bytes = NULL;
  unsigned root = 0;
  long long timeout_ns = 0;
  if (!PyArg_ParseTuple(arguments, "OOIL", &object, &bytes, &root, &timeout_ns)) return NULL;
  const fcp_job* const job = fcp_job_in(object);
  fc_node self;
  if (job == NULL) return NULL;
  fc_status status = fc_this_node(job->job, &self);
  if (status != FC_OK) return fcp_raise(status);
  Py_buffer view;
  // farcall only reads the bytes of the root.
  if (PyObject_GetBuffer(bytes, &view, self.id == root ? PyBUF_SIMPLE : PyBUF_WRITABLE) != 0)
    return NULL;
  fc_job* const handle = job->job;
  Py_BEGIN_ALLOW_THREADS
  status = fc_broadcast(handle, view.buf, (size_t)view.len, root, timeout_ns);
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&view);
  return none_or_error(status);
}

PyObject* fcp_close_job(PyObject* module, PyObject* object) {
  (void)module;
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_job* const handle = job->job;
  fc_queue* const queue = job->queue;
  fc_status status;
  Py_BEGIN_ALLOW_THREADS
  status = fc_job_close(handle);
  if (status == FC_OK) fcp_store_detach(job->store);
  Py_END_ALLOW_THREADS
  if (status != FC_OK) return fcp_raise(status);
  job->job = NULL;
  job->queue = NULL;
  fc_queue_close(queue);
  Py_RETURN_NONE;
}

PyObject* fcp_abandon_job(PyObject* module, PyObject* object) {
  (void)module;
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fcp_store_detach(job->store);
  job->job = NULL;
  job->queue = NULL;
  Py_RETURN_NONE;
}
