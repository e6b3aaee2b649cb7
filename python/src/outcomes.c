// SPDX-License-Identifier: Apache-2.0
#include "core.h"

// Results and exceptions of calls that have ended.

/// Drops the blocks of a reply that nobody reads. Runs on any thread.
static void drop_reply(fc_future* ready, void* store) {
  const void* bytes = NULL;
  size_t size = 0;
  if (fc_future_get(ready, &bytes, &size) == FC_OK) fcp_drop_message(store, bytes, size, 0);
  fc_future_drop(ready);
}

void fcp_abandon_call(fcp_job* self, fc_future* future) {
  if (fc_future_then(future, &drop_reply, self->store) != FC_OK) fc_future_drop(future);
}

PyObject* fcp_finish_call(fcp_job* self, fc_future* future, uint32_t node, fc_status* call_status,
                          enum fcp_kind* kind) {
  const void* bytes = NULL;
  size_t size = 0;
  PyObject* result = NULL;
  const fc_status status = fc_future_get(future, &bytes, &size);
  *call_status = status;
  *kind = FCP_PLAIN;
  if (status != FC_OK) {
    fcp_raise(status);
  } else {
    result = fcp_result_of(self, bytes, size, kind);
    if (result != NULL && *kind == FCP_EXCEPTION) {
      fcp_raise_remote(result, node);
      Py_CLEAR(result);
    } else if (*kind == FCP_RETURNED || *kind == FCP_STOPPED || *kind == FCP_UNDEFINED) {
      Py_CLEAR(result);
    }
  }
  fc_future_drop(future);
  return result;
}

PyObject* fcp_outcome_of(fcp_job* self, fc_future* future, uint32_t node, int* outcome) {
  fc_status status = FC_OK;
  enum fcp_kind kind = FCP_PLAIN;
  PyObject* const value = fcp_finish_call(self, future, node, &status, &kind);
  *outcome = 0;
  if (value != NULL) return value;
  if (PyErr_Occurred()) {
    *outcome = status == FC_NODE_FAILED ? 5 : 1;
    return fcp_take_exception();
  }
  *outcome = kind == FCP_STOPPED ? 3 : kind == FCP_UNDEFINED ? 4 : 2;
  Py_RETURN_NONE;
}
