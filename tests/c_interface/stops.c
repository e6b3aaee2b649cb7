// SPDX-License-Identifier: Apache-2.0

// Tests of calls that are stopped.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/// Words in memory of the target that record its calls; the host reads them.
enum { BEGAN, TOLD, COUNTED, GATE, WORDS = 16 };

static _Atomic uint32_t* words_of(fc_span span) {
  void* here = NULL;
  if (fc_map(NULL, span, &here) != FC_OK) abort();
  return here;
}

static _Atomic uint32_t* words_in(const void* bytes, size_t size) {
  fc_span span;
  if (size != sizeof span) abort();
  memcpy(&span, bytes, size);
  return words_of(span);
}

/// Waits until the word has the value; returns false after the time limit.
static bool becomes(const _Atomic uint32_t* word, uint32_t value) {
  for (int i = 0; i < 60000; ++i) {
    if (atomic_load_explicit(word, memory_order_acquire) >= value) return true;
    usleep(1000);
  }
  return false;
}

static bool is_stopped_in_time(const fc_reply* reply) {
  for (int i = 0; i < 60000; ++i) {
    if (fc_reply_stopped(reply)) return true;
    usleep(1000);
  }
  return false;
}

/// Runs until it is stopped.
static void run_on(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  _Atomic uint32_t* words = words_in(bytes, size);
  atomic_fetch_add(&words[BEGAN], 1);
  if (is_stopped_in_time(reply)) atomic_fetch_add(&words[TOLD], 1);
}

static void count(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  if (fc_reply_stopped(reply)) abort();
  atomic_fetch_add(&words_in(bytes, size)[COUNTED], 1);
}

struct kept_call {
  fc_reply* reply;
  _Atomic uint32_t* words;
};

static void* reply_once_stopped(void* user) {
  struct kept_call* call = user;
  if (is_stopped_in_time(call->reply)) atomic_fetch_add(&call->words[TOLD], 1);
  fc_reply_bytes(call->reply, NULL, 0);
  free(call);
  return NULL;
}

/// Returns at once; a thread replies later.
static void keep(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  struct kept_call* call = malloc(sizeof *call);
  pthread_t thread;
  if (call == NULL || fc_reply_keep(reply, &call->reply) != FC_OK) abort();
  call->words = words_in(bytes, size);
  atomic_fetch_add(&call->words[BEGAN], 1);
  if (pthread_create(&thread, NULL, &reply_once_stopped, call) != 0) abort();
  pthread_detach(thread);
}

struct scene {
  fc_node target;
  fc_span span; ///< the words, on the target
  _Atomic uint32_t* words;
};

static fc_future* start(const struct scene* s, fc_node where, const char* name) {
  fc_future* future = NULL;
  NEED(fc_call_async(where, fc_named(name), &s->span, sizeof s->span, &future) == FC_OK);
  return future;
}

static void clear(const struct scene* s) {
  for (int i = 0; i < WORDS; ++i)
    atomic_store(&s->words[i], 0);
}

static void calls_that_run_are_told(const struct scene* s, const char* name) {
  clear(s);
  fc_future* future = start(s, fc_stoppable(s->target), name);
  CHECK(becomes(&s->words[BEGAN], 1));
  CHECK(!fc_future_test(future));
  CHECK(fc_future_stop(future) == FC_OK);
  CHECK(fc_future_test(future));
  CHECK_FAILS(FC_CANCELLED, "stop", fc_future_get(future, NULL, NULL));
  CHECK(fc_error_node() == s->target.id);
  CHECK(becomes(&s->words[TOLD], 1));
  CHECK(fc_future_stop(future) == FC_OK); // a second stop has no effect
  fc_future_drop(future);
}

static void calls_that_have_not_begun_do_not_run(const struct scene* s) {
  clear(s);
  enum { MANY = 100 };
  fc_future* busy = start(s, fc_stoppable(s->target), "run on");
  CHECK(becomes(&s->words[BEGAN], 1));
  fc_future* waiting[MANY];
  for (int i = 0; i < MANY; ++i)
    waiting[i] = start(s, fc_stoppable(s->target), "count");
  fc_future* ordinary = start(s, s->target, "count");
  for (int i = 0; i < MANY; ++i) {
    CHECK(fc_future_stop(waiting[i]) == FC_OK);
    fc_future_drop(waiting[i]);
  }
  CHECK(fc_future_stop(busy) == FC_OK);
  fc_future_drop(busy);
  CHECK(fc_future_get(ordinary, NULL, NULL) == FC_OK);
  fc_future_drop(ordinary);
  CHECK(atomic_load(&s->words[COUNTED]) == 1);
}

static void* stop(void* future) {
  usleep(10000);
  return fc_future_stop(future) == FC_OK ? NULL : future;
}

static void another_thread_may_stop_them(const struct scene* s) {
  clear(s);
  fc_future* future = start(s, fc_stoppable(s->target), "run on");
  CHECK(becomes(&s->words[BEGAN], 1));
  pthread_t thread;
  NEED(pthread_create(&thread, NULL, &stop, future) == 0);
  CHECK(fc_future_get(future, NULL, NULL) == FC_CANCELLED);
  void* failed = NULL;
  pthread_join(thread, &failed);
  CHECK(failed == NULL);
  fc_future_drop(future);
  CHECK(becomes(&s->words[TOLD], 1));
}

static void replies_that_are_there_stay(const struct scene* s) {
  clear(s);
  fc_node in_time = fc_within(fc_stoppable(s->target), LIMIT_NS);
  fc_node lane;
  NEED(fc_lane_open(fc_stoppable(s->target), &lane) == FC_OK);
  const fc_node places[] = {fc_stoppable(s->target), in_time, lane};
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    fc_future* future = start(s, places[i], "count");
    CHECK(fc_future_wait(future, LIMIT_NS) == FC_OK);
    CHECK(fc_future_stop(future) == FC_OK);
    CHECK(fc_future_get(future, NULL, NULL) == FC_OK);
    CHECK(fc_future_stop(future) == FC_OK);
    fc_future_drop(future);
  }
  fc_lane_close(lane);
  // Each call was waited for before its stop, so all three have run.
  CHECK(atomic_load(&s->words[COUNTED]) == 3);
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'nothing'",
              fc_call(fc_stoppable(s->target), fc_named("nothing"), NULL, 0, NULL, 0, NULL));
  fc_future* unknown = start(s, fc_stoppable(s->target), "nothing");
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'nothing'", fc_future_get(unknown, NULL, NULL));
  fc_future_drop(unknown);
}

static void others_cannot_be_stopped(const struct scene* s) {
  fc_future* future = start(s, s->target, "count");
  CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_stoppable", fc_future_stop(future));
  CHECK(fc_future_get(future, NULL, NULL) == FC_OK);
  fc_future_drop(future);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "future", fc_future_stop(NULL));
  CHECK(!fc_reply_stopped(NULL));
}

int main(int argc, char** argv) {
  NEED(fc_register("run on", &run_on, NULL) == FC_OK);
  NEED(fc_register("count", &count, NULL) == FC_OK);
  NEED(fc_register("keep", &keep, NULL) == FC_OK);
  const fc_job_options options = {.size = sizeof options, .targets = "shm"};
  fc_job* job = NULL;
  struct scene s = {0};
  NEED(fc_job_start(&argc, argv, &options, &job) == FC_OK);
  NEED(fc_node_at(job, 1, &s.target) == FC_OK);
  NEED(fc_allocate(s.target, WORDS * sizeof(uint32_t), &s.span) == FC_OK);
  s.words = words_of(s.span);

  calls_that_run_are_told(&s, "run on");
  calls_that_run_are_told(&s, "keep");
  calls_that_have_not_begun_do_not_run(&s);
  another_thread_may_stop_them(&s);
  replies_that_are_there_stay(&s);
  others_cannot_be_stopped(&s);

  fc_job_end(job);
  return failures != 0;
}
