// SPDX-License-Identifier: Apache-2.0

// Tests of copies that are ordered with the calls of a lane.
#include "check.h"

#include <farcall/c/in_order.h>

enum { values = 100000, rounds = 20 };

/// Adds 1 to each of the values in the memory of this node that a span names.
static void add_one(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply, (void)user;
  fc_span memory;
  void* here = NULL;
  if (size != sizeof memory) abort();
  memcpy(&memory, bytes, sizeof memory);
  if (fc_map(NULL, memory, &here) != FC_OK) abort();
  for (size_t i = 0; i < memory.bytes / sizeof(int); ++i)
    ++((int*)here)[i];
}

/// Each round writes values, lets the node add to them, and reads them, without waiting between.
static void copies_follow_calls_of(fc_job* job, fc_node where, size_t count) {
  static int sent[values];
  static int got[rounds][values];
  const size_t bytes = count * sizeof(int);
  const fc_function f = fc_named("add one");
  fc_span memory;
  fc_node node;
  NEED(fc_node_at(job, where.id, &node) == FC_OK && fc_allocate(node, bytes, &memory) == FC_OK);
  for (size_t i = 0; i < count; ++i)
    sent[i] = (int)i;
  fc_future* gets[rounds] = {NULL};
  for (int round = 0; round < rounds; ++round) {
    fc_future* put = NULL;
    CHECK(fc_put_in_order(where, memory, sent, bytes, &put) == FC_OK);
    CHECK(fc_settle(where) == FC_OK);
    CHECK(fc_post(where, f, &memory, sizeof memory) == FC_OK);
    CHECK(fc_get_in_order(where, memory, got[round], bytes, &gets[round]) == FC_OK);
    CHECK(fc_future_get(put, NULL, NULL) == FC_OK);
    fc_future_drop(put);
  }
  for (int round = 0; round < rounds; ++round) {
    CHECK(fc_future_get(gets[round], NULL, NULL) == FC_OK);
    fc_future_drop(gets[round]);
    for (size_t i = 0; i < count; ++i)
      NEED(got[round][i] == (int)i + 1);
  }
  // Waiting copies, and the release, follow the call, too.
  CHECK(fc_post(where, f, &memory, sizeof memory) == FC_OK);
  CHECK(fc_get_in_order(where, memory, got[0], bytes, NULL) == FC_OK);
  CHECK(got[0][count - 1] == (int)count + 1);
  CHECK(fc_put_in_order(where, memory, sent, bytes, NULL) == FC_OK);
  CHECK(fc_post(where, f, &memory, sizeof memory) == FC_OK);
  CHECK(fc_release_in_order(where, memory) == FC_OK);
}

int main(int argc, char** argv) {
  NEED(fc_register("add one", add_one, NULL) == FC_OK);
  const fc_job_options options = {.size = sizeof options, .targets = "shm:2"};
  fc_job* job = NULL;
  fc_node first;
  fc_node second;
  fc_node lane;
  NEED(fc_job_start(&argc, argv, &options, &job) == FC_OK);
  NEED(fc_node_at(job, 1, &first) == FC_OK && fc_node_at(job, 2, &second) == FC_OK);
  NEED(fc_lane_open(first, &lane) == FC_OK);
  const size_t counts[] = {1, 1000, values};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    copies_follow_calls_of(job, first, counts[i]);
    copies_follow_calls_of(job, lane, counts[i]);
  }

  fc_span memory;
  int value = 0;
  NEED(fc_allocate(first, sizeof value, &memory) == FC_OK);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "calls to node 2",
              fc_put_in_order(second, memory, &value, sizeof value, NULL));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "calls to node 2", fc_release_in_order(second, memory));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "from",
              fc_put_in_order(first, memory, NULL, sizeof value, NULL));
  CHECK_FAILS(FC_ERROR, "beyond", fc_get_in_order(first, memory, &value, 5, NULL));
  const fc_node none = {0};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_node", fc_settle(none));
  fc_lane_close(lane);
  fc_job_end(job);
  return failures != 0;
}
