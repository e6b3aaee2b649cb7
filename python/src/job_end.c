// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <unistd.h>

// The end of a job, which waits for threads that use the job without the GIL.

enum { look_us = 200, hang_us = 2000000 };

/// Ends all other nodes, so that waits for them fail.
static void remove_nodes(fc_job* handle) {
  const uint32_t count = fc_job_size(handle);
  for (uint32_t place = 1; place < count; ++place) {
    fc_node node;
    if (fc_latest_node(handle, place, &node) == FC_OK && fc_node_alive(node)) fc_node_remove(node);
  }
}

/// Waits until no thread uses the job, which no thread can begin any more.
static void await_users(fcp_job* self, fc_job* handle) {
  if (self->forks != fcp_forks()) return; // the threads are the parent's
  for (long waited = 0; self->users != 0; waited += look_us) {
    Py_BEGIN_ALLOW_THREADS
    // A node may hang.
    if (self->is_host && waited == hang_us) remove_nodes(handle);
    usleep(look_us);
    Py_END_ALLOW_THREADS
  }
}

void fcp_end_job(fcp_job* self) {
  fc_job* const job = self->job;
  fc_queue* const queue = self->queue;
  self->job = NULL;
  self->queue = NULL;
  Py_CLEAR(self->explain);
  await_users(self, job);
  fcp_store_end(self->store);
  if (!self->is_host) {
    fc_queue_close(queue);
    return;
  }
  Py_BEGIN_ALLOW_THREADS
  fc_job_end(job);
  fc_queue_close(queue);
  Py_END_ALLOW_THREADS
  fcp_end_left_copies();
}
