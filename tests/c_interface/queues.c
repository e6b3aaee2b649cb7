// SPDX-License-Identifier: Apache-2.0

// Tests of messages of several parts, and of completion queues.
#include "check.h"

#include <farcall/c/queue.h>

#include <poll.h>

enum { TARGETS = 2, CALLS = 500, AT_ONCE = 16 };

static void echo(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_reply_bytes(reply, bytes, size);
}

struct scene {
  fc_job* job;
  fc_node targets[TARGETS];
};

static void parts_become_one_message(const struct scene* s) {
  const fc_bytes parts[] = {{"ab", 2}, {NULL, 0}, {"cde", 3}};
  fc_future* result = NULL;
  const void* bytes = NULL;
  size_t size = 0;
  NEED(fc_callv(s->targets[0], fc_named("echo"), parts, 3, &result) == FC_OK);
  CHECK(fc_future_test(result));
  CHECK(fc_future_get(result, &bytes, &size) == FC_OK);
  CHECK(size == 5 && memcmp(bytes, "abcde", 5) == 0);
  fc_future_drop(result);
  NEED(fc_try_call_async(s->targets[0], fc_named("echo"), parts, 1, &result) == FC_OK);
  CHECK(fc_future_get(result, &bytes, &size) == FC_OK);
  CHECK(size == 2 && memcmp(bytes, "ab", 2) == 0);
  fc_future_drop(result);
}

/// Takes elements, each of which must contain its tag. Returns how many.
static size_t take(fc_queue* queue, int64_t timeout_ns) {
  fc_completion taken[AT_ONCE];
  size_t count = 0;
  if (fc_queue_take(queue, taken, AT_ONCE, timeout_ns, &count) != FC_OK) return 0;
  for (size_t i = 0; i < count; ++i) {
    const void* bytes = NULL;
    size_t size = 0;
    CHECK(fc_future_get(taken[i].future, &bytes, &size) == FC_OK);
    CHECK(size == sizeof(uint64_t) && memcmp(bytes, &taken[i].tag, size) == 0);
    fc_future_drop(taken[i].future);
  }
  return count;
}

static void start(const struct scene* s, fc_queue* queue, uint64_t tag) {
  const fc_bytes part = {&tag, sizeof tag};
  NEED(fc_call_async_to(s->targets[tag % TARGETS], fc_named("echo"), &part, 1, queue, tag) ==
       FC_OK);
}

static void calls_are_taken_as_they_end(const struct scene* s) {
  fc_queue* queue = NULL;
  NEED(fc_queue_open(s->job, &queue) == FC_OK);
  for (uint64_t tag = 0; tag < CALLS; ++tag)
    start(s, queue, tag);
  size_t done = 0;
  for (size_t count = 1; count != 0 && done < CALLS; done += count)
    count = take(queue, LIMIT_NS);
  CHECK(done == CALLS);
  CHECK(take(queue, 0) == 0 && fc_error_status() == FC_TIMEOUT);
  fc_queue_close(queue);
}

static void an_event_loop_can_take_them(const struct scene* s) {
  fc_queue* queue = NULL;
  struct pollfd watched = {.events = POLLIN};
  NEED(fc_queue_open(s->job, &queue) == FC_OK);
  NEED(fc_queue_fd(queue, &watched.fd) == FC_OK);
  size_t done = 0;
  for (uint64_t tag = 0; tag < CALLS; ++tag) {
    start(s, queue, tag);
    while (tag + 1 - done >= AT_ONCE && poll(&watched, 1, 60000) == 1)
      done += take(queue, 0);
  }
  while (done < CALLS && poll(&watched, 1, 60000) == 1)
    done += take(queue, 0);
  CHECK(done == CALLS);
  fc_queue_close(queue);
}

static bool always(void* user) {
  ++*(int*)user;
  return true;
}

static void waits_can_be_interrupted(const struct scene* s) {
  fc_queue* queue = NULL;
  fc_completion taken;
  size_t count = 0;
  int questions = 0;
  NEED(fc_queue_open(s->job, &queue) == FC_OK);
  fc_set_interrupt(&always, &questions);
  CHECK_FAILS(FC_INTERRUPTED, "interrupted", fc_queue_take(queue, &taken, 1, LIMIT_NS, &count));
  CHECK(questions == 1);
  fc_set_interrupt(NULL, NULL);
  fc_queue_close(queue);
}

int main(int argc, char** argv) {
  NEED(fc_register("echo", &echo, NULL) == FC_OK);
  const fc_job_options options = {.size = sizeof options, .targets = "shm:2"};
  struct scene s = {0};
  NEED(fc_job_start(&argc, argv, &options, &s.job) == FC_OK);
  for (uint32_t i = 0; i < TARGETS; ++i)
    NEED(fc_node_at(s.job, i + 1, &s.targets[i]) == FC_OK);

  parts_become_one_message(&s);
  calls_are_taken_as_they_end(&s);
  an_event_loop_can_take_them(&s);
  waits_can_be_interrupted(&s);

  // A queue that outlives its job.
  fc_queue* left = NULL;
  NEED(fc_queue_open(s.job, &left) == FC_OK);
  start(&s, left, 1);
  fc_job_end(s.job);
  fc_completion taken;
  size_t count = 0;
  NEED(fc_queue_take(left, &taken, 1, -1, &count) == FC_OK);
  const fc_status status = fc_future_get(taken.future, NULL, NULL);
  CHECK(status == FC_OK || status == FC_NODE_FAILED);
  fc_future_drop(taken.future);
  CHECK_FAILS(FC_ERROR, "ended", fc_queue_take(left, &taken, 1, -1, &count));
  fc_queue_close(left);
  return failures != 0;
}
