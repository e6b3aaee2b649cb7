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
  fcp_job* const job = fcp_job_in(object);
  if (job == NULL) return NULL;
  fc_job* const handle = job->job;
  fc_status status;
  FCP_BEGIN_WAIT(job)
  status = fc_barrier(handle, timeout_ns);
  FCP_END_WAIT
  return none_or_error(status);
}

PyObject* fcp_all_gather(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  PyObject* all = NULL;
  Py_buffer mine;
  long long timeout_ns = 0;
  if (!PyArg_ParseTuple(arguments, "Oy*L", &object, &mine, &timeout_ns)) return NULL;
  fcp_job* const job = fcp_job_in(object);
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
    FCP_BEGIN_WAIT(job)
    status = fc_all_gather(handle, mine.buf, (size_t)mine.len, to, timeout_ns);
    FCP_END_WAIT
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
  fcp_job* const job = fcp_job_in(object);
  fc_node self;
  if (job == NULL) return NULL;
  fc_status status = fc_this_node(job->job, &self);
  if (status != FC_OK) return fcp_raise(status);
  Py_buffer view;
  // farcall only reads the bytes of the root.
  if (PyObject_GetBuffer(bytes, &view, self.id == root ? PyBUF_SIMPLE : PyBUF_WRITABLE) != 0)
    return NULL;
  fc_job* const handle = job->job;
  FCP_BEGIN_WAIT(job)
  status = fc_broadcast(handle, view.buf, (size_t)view.len, root, timeout_ns);
  FCP_END_WAIT
  PyBuffer_Release(&view);
  return none_or_error(status);
}

/// Returns the size of a value of an fc_type; 0 for other numbers.
static Py_ssize_t size_of_type(int type) {
  static const unsigned char sizes[] = {
      [FC_INT8] = 1,   [FC_INT16] = 2,  [FC_INT32] = 4,  [FC_INT64] = 8, [FC_UINT8] = 1,
      [FC_UINT16] = 2, [FC_UINT32] = 4, [FC_UINT64] = 8, [FC_FLOAT] = 4, [FC_DOUBLE] = 8};
  return type > 0 && type < (int)sizeof sizes ? sizes[type] : 0;
}

PyObject* fcp_combine(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* object = NULL;
  PyObject* buffer = NULL;
  int kind = 0;
  int type = 0;
  int operation = 0;
  unsigned root = 0;
  long long timeout_ns = 0;
  if (!PyArg_ParseTuple(arguments, "OiOiiIL", &object, &kind, &buffer, &type, &operation, &root,
                        &timeout_ns))
    return NULL;
  fcp_job* const job = fcp_job_in(object);
  Py_buffer view;
  if (job == NULL || PyObject_GetBuffer(buffer, &view, PyBUF_CONTIG) != 0) return NULL;
  // The copy of an object may have another type than the object.
  if (view.itemsize != size_of_type(type)) {
    PyBuffer_Release(&view);
    return PyErr_Format(PyExc_TypeError, "the copy of a buffer has values of another type");
  }
  const fc_reduction how = {
      .size = sizeof how, .type = (fc_type)type, .operation = (fc_operation)operation};
  const size_t count = (size_t)(view.len / view.itemsize);
  fc_job* const handle = job->job;
  fc_status status;
  FCP_BEGIN_WAIT(job)
  if (kind == FCP_REDUCE) {
    status = fc_reduce(handle, view.buf, view.buf, count, &how, root, timeout_ns);
  } else if (kind == FCP_ALL_REDUCE) {
    status = fc_all_reduce(handle, view.buf, view.buf, count, &how, timeout_ns);
  } else {
    status = fc_scan(handle, view.buf, view.buf, count, &how, timeout_ns);
  }
  FCP_END_WAIT
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
