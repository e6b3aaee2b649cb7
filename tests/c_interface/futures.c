// SPDX-License-Identifier: Apache-2.0

// Tests of futures, copies, and memory on nodes.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

/// Arguments of "hold", which replies with the number once a word of the span is set.
struct held_call {
  uint64_t number;
  fc_span word;
};

static void hold(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  struct held_call call;
  if (size != sizeof call) return;
  memcpy(&call, bytes, size);
  void* word = NULL;
  if (fc_map(NULL, call.word, &word) != FC_OK) {
    fc_reply_error(reply, "map", fc_error_text());
    return;
  }
  while (atomic_load_explicit((_Atomic uint32_t*)word, memory_order_acquire) == 0) {
  }
  fc_reply_bytes(reply, &call.number, sizeof call.number);
}

/// Stores the sum of a span's elements in the first one, in place, and replies with it.
static void sum_in_place(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_span span;
  void* here = NULL;
  if (size != sizeof span) return;
  memcpy(&span, bytes, size);
  if (fc_map(NULL, span, &here) != FC_OK) return;
  double* values = here;
  double sum = 0;
  for (uint64_t i = 0; i < span.bytes / sizeof *values; ++i)
    sum += values[i];
  values[0] = sum;
  fc_reply_bytes(reply, &sum, sizeof sum);
}

static void echo(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_reply_bytes(reply, bytes, size);
}

/// Replies with the contents of a span, which may be on any node.
static void fetch(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_span span;
  char got[64];
  if (size != sizeof span) return;
  memcpy(&span, bytes, size);
  if (span.bytes > sizeof got || fc_get(NULL, span, got, span.bytes) != FC_OK) {
    fc_reply_error(reply, "get", fc_error_text());
    return;
  }
  fc_reply_bytes(reply, got, span.bytes);
}

enum { TARGETS = 3 };

struct scene {
  fc_job* job;
  fc_node targets[TARGETS];
  fc_span words; ///< on the host
  _Atomic uint32_t* here;
};

static fc_future* held(const struct scene* s, unsigned target, uint64_t number) {
  struct held_call call = {.number = number};
  NEED(fc_part(s->words, number * sizeof(uint32_t), sizeof(uint32_t), &call.word) == FC_OK);
  fc_future* future = NULL;
  NEED(fc_call_async(s->targets[target], fc_named("hold"), &call, sizeof call, &future) == FC_OK);
  return future;
}

static void release(const struct scene* s, uint64_t number) {
  atomic_store_explicit(&s->here[number], 1, memory_order_release);
}

static uint64_t number_of(fc_future* future) {
  const void* bytes = NULL;
  size_t size = 0;
  uint64_t number = UINT64_MAX;
  CHECK(fc_future_get(future, &bytes, &size) == FC_OK);
  CHECK(size == sizeof number);
  if (bytes != NULL && size == sizeof number) memcpy(&number, bytes, size);
  return number;
}

static void futures_are_tested_and_waited_for(const struct scene* s) {
  fc_future* future = held(s, 0, 1);
  CHECK(!fc_future_test(future));
  CHECK_FAILS(FC_TIMEOUT, "not ready", fc_future_wait(future, 0));
  CHECK_FAILS(FC_TIMEOUT, "not ready", fc_future_wait(future, 1000000));
  release(s, 1);
  CHECK(fc_future_wait(future, LIMIT_NS) == FC_OK);
  CHECK(fc_future_test(future));
  CHECK(number_of(future) == 1);
  CHECK(number_of(future) == 1); // the future keeps it
  CHECK(fc_future_test(future));
  fc_future_drop(future);
  fc_future_drop(NULL);
}

static void results_of_any_size_stay_in_the_future(const struct scene* s) {
  const size_t sizes[] = {0, 1, 32, 33, 100000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    char* sent = malloc(sizes[i] + 1);
    NEED(sent != NULL);
    memset(sent, (int)i + 1, sizes[i] + 1);
    fc_future* future = NULL;
    NEED(fc_call_async(s->targets[0], fc_named("echo"), sent, sizes[i], &future) == FC_OK);
    const void* got = NULL;
    size_t size = 77;
    CHECK(fc_future_get(future, &got, &size) == FC_OK);
    CHECK(size == sizes[i] && memcmp(got, sent, size) == 0);
    fc_future_drop(future);
    free(sent);
  }
}

static void a_future_can_be_dropped_before_it_is_ready(const struct scene* s) {
  fc_future_drop(held(s, 0, 2));
  release(s, 2);
  char got = 0;
  CHECK(fc_call(s->targets[0], fc_named("echo"), "x", 1, &got, 1, NULL) == FC_OK);
  CHECK(got == 'x');
}

static void any_and_all_are_waited_for(const struct scene* s) {
  fc_future* futures[TARGETS + 1] = {NULL};
  for (unsigned i = 0; i < TARGETS; ++i)
    futures[i + 1] = held(s, i, 10 + i);
  size_t index = 99;
  CHECK_FAILS(FC_TIMEOUT, "in time", fc_wait_any(futures, TARGETS + 1, 1000000, &index));
  CHECK_FAILS(FC_TIMEOUT, "not ready", fc_wait_all(futures, TARGETS + 1, 1000000));
  CHECK(index == 99);

  release(s, 11);
  NEED(fc_wait_any(futures, TARGETS + 1, LIMIT_NS, &index) == FC_OK);
  CHECK(index == 2 && number_of(futures[index]) == 11);
  // A ready future ends each wait at once; without it, the wait is for another one.
  CHECK(fc_wait_any(futures, TARGETS + 1, LIMIT_NS, &index) == FC_OK && index == 2);
  fc_future_drop(futures[2]);
  futures[2] = NULL;
  release(s, 12);
  NEED(fc_wait_any(futures, TARGETS + 1, -1, &index) == FC_OK);
  CHECK(index == 3 && number_of(futures[index]) == 12);

  release(s, 10);
  CHECK(fc_wait_all(futures, TARGETS + 1, LIMIT_NS) == FC_OK);
  CHECK(number_of(futures[1]) == 10 && number_of(futures[3]) == 12);
  for (unsigned i = 0; i <= TARGETS; ++i)
    fc_future_drop(futures[i]);

  CHECK(fc_wait_all(NULL, 0, -1) == FC_OK);
  fc_future* none[1] = {NULL};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "no future", fc_wait_any(none, 1, -1, &index));
}

struct seen {
  _Atomic int count;
  uint64_t number;
};

static void note(fc_future* ready, void* user) {
  struct seen* seen = user;
  seen->number = number_of(ready);
  fc_future_drop(ready);
  atomic_fetch_add_explicit(&seen->count, 1, memory_order_release);
}

static void continuations_run_once(const struct scene* s) {
  struct seen seen = {0};
  CHECK(fc_future_then(held(s, 0, 20), &note, &seen) == FC_OK);
  CHECK(atomic_load_explicit(&seen.count, memory_order_acquire) == 0);
  release(s, 20);
  char got = 0;
  // A call that waits for its reply takes in others, too, and runs their continuations.
  for (int i = 0; i < 1000 && atomic_load_explicit(&seen.count, memory_order_acquire) == 0; ++i)
    CHECK(fc_call(s->targets[0], fc_named("echo"), "x", 1, &got, 1, NULL) == FC_OK);
  CHECK(atomic_load_explicit(&seen.count, memory_order_acquire) == 1);
  CHECK(seen.number == 20);

  // Continuations of a ready future, and of one whose result was read, run at once.
  for (int looked_at = 0; looked_at < 2; ++looked_at) {
    fc_future* future = held(s, 0, 20);
    CHECK(fc_future_wait(future, LIMIT_NS) == FC_OK);
    if (looked_at) CHECK(number_of(future) == 20);
    CHECK(fc_future_then(future, &note, &seen) == FC_OK);
    CHECK(atomic_load_explicit(&seen.count, memory_order_acquire) == 2 + looked_at);
  }
  fc_future* kept = held(s, 0, 20);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "run", fc_future_then(kept, NULL, NULL));
  CHECK(number_of(kept) == 20);
  fc_future_drop(kept);
}

static void* call_from_a_thread(void* user) {
  fc_node* target = user;
  for (uint32_t i = 0; i < 500; ++i) {
    uint32_t got = 0;
    if (fc_call(*target, fc_named("echo"), &i, sizeof i, &got, sizeof got, NULL) != FC_OK ||
        got != i)
      return target;
  }
  return NULL;
}

static void threads_call_at_the_same_time(const struct scene* s) {
  pthread_t threads[4];
  fc_node target = s->targets[0];
  for (int i = 0; i < 4; ++i)
    NEED(pthread_create(&threads[i], NULL, &call_from_a_thread, &target) == 0);
  for (int i = 0; i < 4; ++i) {
    void* failed = NULL;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
}

static void memory_is_used_from_everywhere(const struct scene* s) {
  enum { COUNT = 1000 };
  double values[COUNT];
  for (int i = 0; i < COUNT; ++i)
    values[i] = 0.5;
  fc_span there;
  NEED(fc_allocate(s->targets[0], sizeof values, &there) == FC_OK);
  CHECK(there.node == 1 && there.bytes == sizeof values && there.address % 64 == 0);
  CHECK(fc_put(s->job, there, values, sizeof values) == FC_OK);
  double sum = 0;
  CHECK(fc_call(s->targets[0], fc_named("sum"), &there, sizeof there, &sum, sizeof sum, NULL) ==
        FC_OK);
  CHECK(sum == 500);
  double first[2] = {0, 0};
  CHECK(fc_get(s->job, there, first, sizeof first) == FC_OK);
  CHECK(first[0] == 500 && first[1] == 0.5);

  // Memory on another node, used through a copy, and in place.
  fc_span other;
  NEED(fc_allocate(s->targets[1], sizeof values, &other) == FC_OK);
  CHECK(fc_copy(s->job, there, other) == FC_OK);
  fc_future* future = NULL;
  double second = 0;
  fc_span part;
  CHECK(fc_part(other, sizeof(double), sizeof(double), &part) == FC_OK);
  NEED(fc_get_async(s->job, part, &second, sizeof second, &future) == FC_OK);
  const void* bytes = NULL;
  size_t size = 77;
  CHECK(fc_future_get(future, &bytes, &size) == FC_OK && size == 0);
  fc_future_drop(future);
  CHECK(second == 0.5);
  void* here = NULL;
  CHECK(fc_map(s->job, other, &here) == FC_OK);
  CHECK(here != NULL && ((double*)here)[0] == 500);

  // A target fetches memory of the host.
  char text[] = "of the host";
  const fc_span own = fc_own_memory(text, sizeof text);
  CHECK(own.node == 0);
  char got[sizeof text] = {0};
  CHECK(fc_call(s->targets[2], fc_named("fetch"), &own, sizeof own, got, sizeof got, NULL) ==
        FC_OK);
  CHECK(strcmp(got, text) == 0);

  CHECK_FAILS(FC_ERROR, "beyond", fc_put(s->job, part, values, sizeof values));
  CHECK_FAILS(FC_ERROR, "beyond", fc_get(s->job, part, values, sizeof values));
  CHECK_FAILS(FC_ERROR, "beyond", fc_copy(s->job, other, part));
  CHECK_FAILS(FC_ERROR, "inside", fc_part(other, other.bytes, 1, &part));
  const fc_span nowhere = {.node = 99, .address = 64, .bytes = 8};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "node 99", fc_put(s->job, nowhere, values, 8));
  CHECK_FAILS(FC_OUT_OF_MEMORY, "node 1", fc_allocate(s->targets[0], UINT64_MAX / 2, &part));

  CHECK(fc_release(s->job, there) == FC_OK);
  CHECK(fc_release(s->job, other) == FC_OK);
}

static void large_copies_run_beside(const struct scene* s) {
  const size_t size = (size_t)8 << 20;
  char* from = malloc(size);
  char* to = calloc(1, size);
  fc_span there;
  NEED(from != NULL && to != NULL && fc_allocate(s->targets[0], size, &there) == FC_OK);
  for (size_t i = 0; i < size; ++i)
    from[i] = (char)(i * 31 + (i >> 12));
  fc_future* futures[1] = {NULL};
  size_t index = 9;
  NEED(fc_put_async(s->job, there, from, size, &futures[0]) == FC_OK);
  CHECK(fc_wait_any(futures, 1, LIMIT_NS, &index) == FC_OK && index == 0);
  CHECK(fc_future_get(futures[0], NULL, NULL) == FC_OK);
  fc_future_drop(futures[0]);
  NEED(fc_get_async(s->job, there, to, size, &futures[0]) == FC_OK);
  CHECK(fc_wait_all(futures, 1, LIMIT_NS) == FC_OK);
  fc_future_drop(futures[0]);
  CHECK(memcmp(from, to, size) == 0);
  fc_span other;
  NEED(fc_allocate(s->targets[1], size, &other) == FC_OK);
  NEED(fc_copy_async(s->job, there, other, &futures[0]) == FC_OK);
  CHECK(fc_future_get(futures[0], NULL, NULL) == FC_OK);
  fc_future_drop(futures[0]);
  memset(to, 0, size);
  CHECK(fc_get(s->job, other, to, size) == FC_OK);
  CHECK(memcmp(from, to, size) == 0);
  CHECK(fc_release(NULL, there) == FC_OK && fc_release(NULL, other) == FC_OK);
  free(from);
  free(to);
}

int main(int argc, char** argv) {
  NEED(fc_register("hold", &hold, NULL) == FC_OK);
  NEED(fc_register("sum", &sum_in_place, NULL) == FC_OK);
  NEED(fc_register("echo", &echo, NULL) == FC_OK);
  NEED(fc_register("fetch", &fetch, NULL) == FC_OK);
  const fc_job_options options = {.size = sizeof options, .targets = "shm:3"};
  struct scene s = {0};
  NEED(fc_job_start(&argc, argv, &options, &s.job) == FC_OK);
  fc_node host;
  NEED(fc_node_at(s.job, 0, &host) == FC_OK);
  for (uint32_t i = 0; i < TARGETS; ++i)
    NEED(fc_node_at(s.job, i + 1, &s.targets[i]) == FC_OK);
  void* here = NULL;
  NEED(fc_allocate(host, 64 * sizeof(uint32_t), &s.words) == FC_OK);
  NEED(fc_map(s.job, s.words, &here) == FC_OK);
  s.here = here;
  for (int i = 0; i < 64; ++i)
    atomic_init(&s.here[i], 0);

  futures_are_tested_and_waited_for(&s);
  results_of_any_size_stay_in_the_future(&s);
  a_future_can_be_dropped_before_it_is_ready(&s);
  any_and_all_are_waited_for(&s);
  continuations_run_once(&s);
  threads_call_at_the_same_time(&s);
  memory_is_used_from_everywhere(&s);
  large_copies_run_beside(&s);

  // A future that outlives its job.
  fc_future* left = NULL;
  NEED(fc_call_async(s.targets[0], fc_named("echo"), "x", 1, &left) == FC_OK);
  fc_job_end(s.job);
  const fc_status status = fc_future_get(left, NULL, NULL);
  CHECK(status == FC_OK || status == FC_NODE_FAILED);
  fc_future_drop(left);
  return failures != 0;
}
