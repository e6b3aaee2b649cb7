// SPDX-License-Identifier: Apache-2.0

// Tests of jobs of equals. Every node runs this program. The arguments are the number of nodes, and
// the name of a test of failures, or none.
#include "check.h"

#include <farcall/c/equals.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

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

/// A range of nodes, whose operation is not commutative.
typedef struct range {
  uint32_t first, last;
} range;

/// Counts its calls in `user`. Joins ranges that follow each other, and marks others as wrong.
static void join_ranges(const void* left, const void* right, void* result, size_t count,
                        void* user) {
  ++*(unsigned*)user;
  for (size_t i = 0; i < count; ++i) {
    const range a = ((const range*)left)[i];
    const range b = ((const range*)right)[i];
    const range joined = {a.first, b.last};
    const range wrong = {77, 77};
    ((range*)result)[i] = a.last + 1 == b.first ? joined : wrong;
  }
}

static void nodes_combine_values(fc_job* job, uint32_t rank, uint32_t nodes) {
  const fc_reduction sum = {.size = sizeof sum, .type = FC_DOUBLE, .operation = FC_SUM};
  const double mine[2] = {rank, 0.5};
  double all[2] = {0};
  CHECK(fc_all_reduce(job, mine, all, 2, &sum, LIMIT_NS) == FC_OK);
  CHECK(all[0] == nodes * (nodes - 1) / 2 && all[1] == 0.5 * nodes);
  double up_to[2] = {rank, 0.5};
  CHECK(fc_scan(job, up_to, up_to, 2, &sum, -1) == FC_OK);
  CHECK(up_to[0] == rank * (rank + 1) / 2 && up_to[1] == 0.5 * (rank + 1));

  const fc_reduction bits = {.size = sizeof bits, .type = FC_UINT16, .operation = FC_BIT_OR};
  const uint32_t root = nodes - 1;
  const uint16_t bit = (uint16_t)(1U << rank);
  uint16_t together = 0;
  CHECK(fc_reduce(job, &bit, rank == root ? &together : NULL, 1, &bits, root, -1) == FC_OK);
  CHECK(together == (rank == root ? (1U << nodes) - 1 : 0));

  unsigned calls = 0;
  const fc_reduction own = {
      .size = sizeof own, .combine = join_ranges, .value_size = sizeof(range), .user = &calls};
  const range here = {rank, rank};
  range whole = {99, 99};
  CHECK(fc_all_reduce(job, &here, &whole, 1, &own, -1) == FC_OK);
  CHECK(whole.first == 0 && whole.last == nodes - 1);
  CHECK(rank != 0 || (calls != 0) == (nodes != 1));
  CHECK(fc_all_reduce(job, NULL, NULL, 0, &sum, -1) == FC_OK);
}

static void wrong_reductions_are_reported(fc_job* job) {
  fc_reduction how = {.size = sizeof how};
  double value = 0;
#define REFUSED(text)                                                                              \
  CHECK_FAILS(FC_INVALID_ARGUMENT, text, fc_all_reduce(job, &value, &value, 1, &how, -1))
  REFUSED("fc_reduction.type 0 does not exist");
  how.type = FC_DOUBLE;
  REFUSED("fc_reduction.operation 0 does not exist");
  how.operation = FC_BIT_AND;
  REFUSED("fc_reduction.operation 5 is for integers");
  how.combine = join_ranges;
  REFUSED("excludes `type` and `operation`");
  how.type = FC_OTHER_TYPE;
  how.operation = FC_OWN_OPERATION;
  REFUSED("value_size is 0");
  how.size = 4;
  REFUSED("fc_reduction.size is 4");
  how = (fc_reduction){.size = sizeof how, .type = FC_DOUBLE, .operation = FC_SUM};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "how", fc_scan(job, &value, &value, 1, NULL, -1));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "mine", fc_scan(job, NULL, &value, 1, &how, -1));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "result", fc_scan(job, &value, NULL, 1, &how, -1));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "count", fc_scan(job, &value, &value, SIZE_MAX, &how, -1));
  CHECK_FAILS(FC_ERROR, "no node", fc_reduce(job, &value, &value, 1, &how, 99, -1));
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

/// Number of calls of add_slowly() that have begun, and that have ended.
static _Atomic int begun, ended;

static void add_slowly(const void* left, const void* right, void* result, size_t count,
                       void* user) {
  (void)user;
  ++begun;
  const struct timespec pause = {0, 300000000};
  nanosleep(&pause, NULL);
  for (size_t i = 0; i < count; ++i)
    ((int*)result)[i] = ((const int*)left)[i] + ((const int*)right)[i];
  ++ended;
}
static bool has_begun(void* user) {
  (void)user;
  return begun != 0;
}

/// The operation runs on a thread of the library when the host interrupts its reduction, and again
/// when the host asks whether to wait for the operation.
static void interruptions_wait_for_the_operation(fc_job* job, uint32_t rank) {
  const fc_reduction slow = {.size = sizeof slow, .combine = add_slowly, .value_size = sizeof(int)};
  const int mine[2] = {1, 2};
  int all[2];
  if (rank == 0) fc_set_interrupt(&has_begun, NULL);
  const fc_status status = fc_all_reduce(job, mine, all, 2, &slow, LIMIT_NS);
  CHECK(begun == ended);
  CHECK(status == (rank == 0 ? FC_INTERRUPTED : FC_OK));
  while (rank != 0)
    NEED(fc_progress(job) == FC_OK);
  if (failures == 0) printf("the operation has ended\n");
  fflush(stdout);
  fc_job_end(job); // ends all nodes
}

static bool is_asked_twice(void* questions) { return ++*(int*)questions == 2; }

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

  if (strcmp(test, "slow") == 0) {
    interruptions_wait_for_the_operation(job, self.id);
    return failures != 0;
  }
  if (strcmp(test, "late") == 0 || strcmp(test, "interrupted") == 0) {
    // The host gives up a barrier that the others never reach.
    while (self.id != 0)
      NEED(fc_progress(job) == FC_OK);
    int questions = 0;
    const bool is_late = strcmp(test, "late") == 0;
    if (!is_late) fc_set_interrupt(&is_asked_twice, &questions);
    const fc_status status = fc_barrier(job, is_late ? 1000000 : LIMIT_NS);
    CHECK_FAILS(FC_ERROR, "no more collectives", fc_barrier(job, LIMIT_NS));
    if (failures == 0) printf("%s: %s\n", test, fc_status_name(status));
    fflush(stdout);
    fc_job_end(job); // ends all nodes
    return 0;
  }
  nodes_call_each_other(job, self.id, nodes);
  mistakes_are_reported(job, nodes);
  nodes_do_things_together(job, self.id, nodes);
  wrong_reductions_are_reported(job);
  nodes_combine_values(job, self.id, nodes);
  CHECK(fc_job_close(NULL) == FC_OK);
  CHECK(fc_current_job() == NULL);
  if (self.id == 0) plain_jobs_have_no_collectives();
  return failures != 0;
}
