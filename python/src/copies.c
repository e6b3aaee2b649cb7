// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <stdlib.h>

// Copies for which a caller waits. If a signal ends the wait, the copy goes on without its caller.
// Its buffer and its memory are then kept until the copy has ended.

/// A copy that goes on without its caller.
typedef struct left_copy {
  struct left_copy* next;
  fc_future* copy;
  Py_buffer buffer;
  PyObject* memory; ///< object that owns the copied memory; NULL if there is none
} left_copy;

/// Copies that go on without their callers; protected by the GIL.
static left_copy* all_left;

fc_status fcp_await_copy(fc_status begun, fc_future* copy, fc_future** left) {
  if (begun != FC_OK) return begun;
  fc_status status = fc_future_wait(copy, -1);
  if (status == FC_INTERRUPTED) {
    *left = copy;
    return status;
  }
  if (status == FC_OK) status = fc_future_get(copy, NULL, NULL);
  fc_future_drop(copy);
  return status;
}

void fcp_leave_copy(fc_future* copy, Py_buffer* buffer, PyObject* memory) {
  left_copy* const made = malloc(sizeof *made);
  // If there is no memory for the list, leak the buffer, because the copy still uses it.
  if (made == NULL) return;
  Py_XINCREF(memory);
  *made = (left_copy){all_left, copy, {.obj = NULL}, memory};
  if (buffer != NULL) made->buffer = *buffer;
  all_left = made;
}

void fcp_end_left_copies(void) {
  left_copy** at = &all_left;
  while (*at != NULL) {
    left_copy* const each = *at;
    if (!fc_future_test(each->copy)) {
      at = &each->next;
      continue;
    }
    *at = each->next;
    fc_future_drop(each->copy);
    PyBuffer_Release(&each->buffer);
    Py_XDECREF(each->memory);
    free(each);
    at = &all_left; // the releases may have run code that changed the list
  }
}
