// SPDX-License-Identifier: Apache-2.0

// Tests of jobs of equals. Every node runs this program. The arguments are the number of nodes, and
// the name of a test of failures, or none.
#include "check.h"

#include <farcall/c/equals.h>

#include <pthread.h>

enum { broadcast_bytes = 100 };

/// Calls of the handler "count". Handlers run on the main thread, so it needs no lock.
static unsigned counted = 0;

static void count(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply, (void)bytes, (void)size, (void)user;
  ++counted;
}

static void tell_rank(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  fc_node self;
  if (fc_this_node(NULL, &self) != FC_OK) abort();
  fc_reply_bytes(reply, &self.id, sizeof self.id);
}

static void* call_barrier(void* job) {
  CHECK_FAILS(FC_ERROR, "fc_barrier() is for the thread that made the job", fc_barrier(job, -1));
  return NULL;
}

static void nodes_call_each_other(fc_job* job, uint32_t rank, uint32_t nodes) {
  for (uint32_t id = 0; id < nodes; ++id) {
    fc_node node;
    uint32_t there = FC_NO_NODE;
    CHECK(fc_node_at(job, id, &node) == FC_OK);
    CHECK(fc_call(node, fc_named("rank"), NULL, 0, &there, sizeof there, NULL) == FC_OK);
    CHECK(there == id);
  }
  fc_node next;
  CHECK(fc_node_at(job, (rank + 1) % nodes, &next) == FC_OK);
  CHECK(fc_post(next, fc_named("count"), NULL, 0) == FC_OK);
  while (counted < 1)
    NEED(fc_progress_in_place(job) == FC_OK);
  CHECK(fc_post(next, fc_named("count"), NULL, 0) == FC_OK);
  while (counted < 2)
    NEED(fc_progress(job) == FC_OK);
}

static void nodes_do_things_together(fc_job* job, uint32_t rank, uint32_t nodes) {
  uint32_t all[16] = {0};
  NEED(nodes <= 16);
  const uint32_t mine = 3 * rank + 1;
  CHECK(fc_all_gather(job, &mine, sizeof mine, all, -1) == FC_OK);
  for (uint32_t id = 0; id < nodes; ++id)
    CHECK(all[id] == 3 * id + 1);
  CHECK(fc_all_gather(job, NULL, 0, NULL, LIMIT_NS) == FC_OK);

  for (uint32_t root = 0; root < nodes; ++root) {
    unsigned char bytes[broadcast_bytes];
    memset(bytes, rank == root ? (int)root + 7 : 0, sizeof bytes);
    CHECK(fc_broadcast(job, bytes, sizeof bytes, root, LIMIT_NS) == FC_OK);
    for (size_t i = 0; i < sizeof bytes; ++i)
      NEED(bytes[i] == root + 7);
  }
  CHECK(fc_barrier(job, LIMIT_NS) == FC_OK);
}

static void mistakes_are_reported(fc_job* job, uint32_t nodes) {
  char byte = 0;
  CHECK_FAILS(FC_INVALID_ARGUMENT, "mine", fc_all_gather(job, NULL, 1, &byte, -1));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "all", fc_all_gather(job, &byte, 1, NULL, -1));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "", fc_all_gather(job, &byte, SIZE_MAX, &byte, -1));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "bytes", fc_broadcast(job, NULL, 1, 0, -1));
  CHECK_FAILS(FC_ERROR, "no node", fc_broadcast(job, &byte, 1, nodes, -1));
  int fd = -1;
  CHECK_FAILS(FC_ERROR, "requests", fc_wait_fd(job, &fd));
  fc_job* second = NULL;
  CHECK_FAILS(FC_ERROR, "job", fc_job_start_spmd(NULL, NULL, NULL, &second));
  CHECK_FAILS(FC_ERROR, "job of equals", fc_node_add(job, "shm", NULL));
  pthread_t other;
  NEED(pthread_create(&other, NULL, call_barrier, job) == 0);
  NEED(pthread_join(other, NULL) == 0);
}

/// Called after the job of equals, on the host.
static void plain_jobs_have_no_collectives(void) {
  const fc_job_options options = {.size = sizeof options, .targets = "none"};
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  CHECK_FAILS(FC_ERROR, "fc_barrier() is for jobs of equals", fc_barrier(job, -1));
  CHECK(fc_progress_in_place(job) == FC_OK);
  CHECK(fc_job_close(job) == FC_OK);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "no job", fc_job_close(job));
  CHECK(fc_current_job() == NULL);
}

int main(int argc, char** argv) {
  NEED(argc >= 2);
  const uint32_t expected = (uint32_t)strtoul(argv[1], NULL, 10);
  const char* const test = argc > 2 ? argv[2] : "";
  NEED(fc_register("count", count, NULL) == FC_OK && fc_register("rank", tell_rank, NULL) == FC_OK);
  fc_job* job = NULL;
  CHECK_FAILS(FC_INVALID_ARGUMENT, "job", fc_job_start_spmd(&argc, argv, NULL, NULL));
  NEED(fc_job_start_spmd(&argc, argv, NULL, &job) == FC_OK);
  fc_node self;
  NEED(fc_this_node(job, &self) == FC_OK);
  const uint32_t nodes = fc_job_size(job);
  CHECK(nodes == expected && self.id < nodes && fc_current_job() == job);

  if (strcmp(test, "late") == 0) {
    // The host gives up a barrier that the others never reach.
    while (self.id != 0)
      NEED(fc_progress(job) == FC_OK);
    printf("late: %s\n", fc_status_name(fc_barrier(job, 1000000)));
    fflush(stdout);
    fc_job_end(job); // ends all nodes
    return 0;
  }
  nodes_call_each_other(job, self.id, nodes);
  mistakes_are_reported(job, nodes);
  nodes_do_things_together(job, self.id, nodes);
  CHECK(fc_job_close(NULL) == FC_OK);
  CHECK(fc_current_job() == NULL);
  if (self.id == 0) plain_jobs_have_no_collectives();
  return failures != 0;
}
