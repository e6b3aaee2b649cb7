// SPDX-License-Identifier: Apache-2.0

// Tests of named handlers, calls and their errors, between hosts and targets.
#include "check.h"

#include <unistd.h>

static void echo(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  if ((uintptr_t)bytes % 16 != 0) {
    fc_reply_error(reply, "alignment", "the bytes are not aligned");
    return;
  }
  fc_reply_bytes(reply, bytes, size);
}

static void add(fc_reply* reply, const void* bytes, size_t size, void* user) {
  int64_t numbers[2];
  if (size != sizeof numbers) {
    fc_reply_error(reply, "size", "two numbers are wanted");
    return;
  }
  memcpy(numbers, bytes, size);
  const int64_t sum = numbers[0] + numbers[1] + *(const int64_t*)user;
  fc_reply_bytes(reply, &sum, sizeof sum);
}

static void say_nothing(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply, (void)bytes, (void)size, (void)user;
}

static void reply_twice(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  const char first = 'a';
  if (fc_reply_bytes(reply, "b", (size_t)-1) != FC_INVALID_ARGUMENT) abort();
  fc_reply_bytes(reply, &first, 1);
  if (fc_reply_bytes(reply, "b", 1) != FC_INVALID_ARGUMENT) abort();
  if (fc_reply_error(reply, "c", "c") != FC_INVALID_ARGUMENT) abort();
}

static fc_reply* kept;

static void keep(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  fc_reply* again;
  if (fc_reply_keep(reply, &kept) != FC_OK) abort();
  if (fc_reply_keep(reply, &again) != FC_INVALID_ARGUMENT) abort();
  if (fc_reply_keep(kept, &again) != FC_INVALID_ARGUMENT) abort();
  if (fc_reply_bytes(reply, "x", 1) != FC_INVALID_ARGUMENT) abort();
}

/// Replies to the call that "keep" has kept: with the bytes, or with an error if there are none.
static void reply_to_kept(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  const bool wanted = fc_reply_wanted(kept);
  if (size != 0) {
    if (fc_reply_bytes(kept, bytes, size) != FC_OK) abort();
  } else if (fc_reply_error(kept, "late", "failed late") != FC_OK) {
    abort();
  }
  fc_reply_bytes(reply, &wanted, sizeof wanted);
}

static void who(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  fc_node here;
  uint32_t result[3] = {FC_NO_NODE, fc_reply_caller(reply), fc_job_size(NULL)};
  if (fc_this_node(NULL, &here) == FC_OK) result[0] = here.id;
  fc_reply_bytes(reply, result, sizeof result);
}

/// Calls "who" on the node that the bytes name, and returns its reply.
static void ask(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  uint32_t id = 0;
  memcpy(&id, bytes, size < sizeof id ? size : sizeof id);
  fc_node there;
  uint32_t result[3];
  if (fc_node_at(NULL, id, &there) != FC_OK ||
      fc_call(there, fc_named("who"), NULL, 0, result, sizeof result, NULL) != FC_OK) {
    fc_reply_error(reply, fc_status_name(fc_error_status()), fc_error_text());
    return;
  }
  fc_reply_bytes(reply, result, sizeof result);
}

static int64_t posted = 0;

static void count(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  if (!fc_reply_wanted(reply)) ++posted;
  fc_reply_bytes(reply, &posted, sizeof posted);
}

static void forget(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  if (fc_unregister("echo") != FC_OK) fc_reply_error(reply, "failed", fc_error_text());
}

static void calls_bring_bytes_there_and_back(fc_node target) {
  const fc_function f = fc_named("echo");
  // Sizes around each limit: empty, within one record, and too large for a record.
  const size_t sizes[] = {0, 1, 7, 8, 9, 31, 32, 33, 1000, 1015, 1016, 1017, 1024, 16000, 1 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const size_t size = sizes[i];
    char* sent = malloc(size + 1);
    char* got = calloc(1, size + 1);
    NEED(sent != NULL && got != NULL);
    for (size_t j = 0; j < size; ++j)
      sent[j] = (char)(j * 7 + i);
    size_t got_size = 77;
    CHECK(fc_call(target, f, sent, size, got, size, &got_size) == FC_OK);
    CHECK(got_size == size);
    CHECK(memcmp(sent, got, size) == 0);
    free(sent);
    free(got);
  }
}

static void handlers_get_their_user_pointer(fc_node target) {
  const int64_t numbers[2] = {40, 2};
  int64_t sum = 0;
  CHECK(fc_call(target, fc_named("add"), numbers, sizeof numbers, &sum, sizeof sum, NULL) == FC_OK);
  CHECK(sum == 1042);
}

static void errors_arrive(fc_node target) {
  CHECK_FAILS(FC_REMOTE_ERROR, "two numbers are wanted",
              fc_call(target, fc_named("add"), "x", 1, NULL, 0, NULL));
  CHECK(strcmp(fc_error_type(), "size") == 0);
  CHECK(fc_error_node() == target.id);

  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'nobody has this'",
              fc_call(target, fc_named("nobody has this"), NULL, 0, NULL, 0, NULL));
  CHECK(fc_error_node() == target.id);

  fc_future* future = NULL;
  NEED(fc_call_async(target, fc_named("nobody has this"), NULL, 0, &future) == FC_OK);
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'nobody has this'", fc_future_get(future, NULL, NULL));
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'nobody has this'", fc_future_get(future, NULL, NULL));
  fc_future_drop(future);
}

static void replies_are_given_once(fc_node target) {
  size_t size = 77;
  CHECK(fc_call(target, fc_named("say nothing"), NULL, 0, NULL, 0, &size) == FC_OK);
  CHECK(size == 0);
  char result = 0;
  CHECK(fc_call(target, fc_named("reply twice"), NULL, 0, &result, 1, &size) == FC_OK);
  CHECK(size == 1 && result == 'a');
}

static void replies_are_given_later(fc_node target) {
  fc_future* future = NULL;
  NEED(fc_call_async(target, fc_named("keep"), NULL, 0, &future) == FC_OK);
  bool wanted = false;
  CHECK(fc_call(target, fc_named("reply to kept"), "later", 5, &wanted, sizeof wanted, NULL) ==
        FC_OK);
  CHECK(wanted);
  const void* bytes = NULL;
  size_t size = 0;
  CHECK(fc_future_get(future, &bytes, &size) == FC_OK);
  CHECK(size == 5 && memcmp(bytes, "later", 5) == 0);
  fc_future_drop(future);

  NEED(fc_call_async(target, fc_named("keep"), NULL, 0, &future) == FC_OK);
  CHECK(fc_call(target, fc_named("reply to kept"), NULL, 0, &wanted, sizeof wanted, NULL) == FC_OK);
  CHECK_FAILS(FC_REMOTE_ERROR, "failed late", fc_future_get(future, NULL, NULL));
  CHECK(strcmp(fc_error_type(), "late") == 0);
  fc_future_drop(future);
}

static void too_little_space_says_how_much_is_needed(fc_node target) {
  char got[4] = {0};
  size_t size = 0;
  CHECK_FAILS(FC_INVALID_ARGUMENT, "5 bytes",
              fc_call(target, fc_named("echo"), "12345", 5, got, 3, &size));
  CHECK(size == 5);
  CHECK(memcmp(got, "123", 4) == 0);
}

static void sizes_that_nothing_has_are_refused(fc_node target) {
  const size_t negative = (size_t)-1;
  CHECK_FAILS(FC_INVALID_ARGUMENT, "more than there can be",
              fc_call(target, fc_named("echo"), "x", negative, NULL, 0, NULL));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "more than there can be",
              fc_post(target, fc_named("echo"), "x", negative));
}

static void any_node_calls_any(fc_job* job) {
  for (uint32_t asked = 0; asked < 3; ++asked) {
    for (uint32_t then = 0; then < 3; ++then) {
      fc_node node;
      uint32_t result[3] = {9, 9, 9};
      NEED(fc_node_at(job, asked, &node) == FC_OK);
      CHECK(fc_call(node, fc_named("ask"), &then, sizeof then, result, sizeof result, NULL) ==
            FC_OK);
      CHECK(result[0] == then && result[1] == asked && result[2] == 3);
    }
  }
}

static void posts_are_run(fc_node target) {
  int64_t seen = 0;
  for (int i = 0; i < 100; ++i)
    CHECK(fc_post(target, fc_named("count"), NULL, 0) == FC_OK);
  CHECK(fc_call(target, fc_named("count"), NULL, 0, &seen, sizeof seen, NULL) == FC_OK);
  CHECK(seen == 100);
}

static void lanes_are_places_to_call(fc_node target) {
  fc_node lane;
  NEED(fc_lane_open(target, &lane) == FC_OK);
  CHECK(lane.id == target.id);
  char got[3];
  CHECK(fc_call(lane, fc_named("echo"), "abc", 3, got, 3, NULL) == FC_OK);
  CHECK(memcmp(got, "abc", 3) == 0);
  fc_lane_close(lane);
  fc_lane_close(target); // has no effect: `target` is no lane
}

static void deadlines_end_waiting(fc_node target) {
  CHECK_FAILS(FC_TIMEOUT, "deadline",
              fc_call(fc_within(target, 1000000), fc_named("block"), NULL, 0, NULL, 0, NULL));
  CHECK(fc_within(target, -1).deadline == 0);
  CHECK(fc_call(fc_within(target, LIMIT_NS), fc_named("echo"), NULL, 0, NULL, 0, NULL) == FC_OK);
}

static void block(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply, (void)bytes, (void)size, (void)user;
  usleep(200000);
}

static void names_are_registered_at_any_time(fc_job* job, fc_node target) {
  CHECK_FAILS(FC_INVALID_ARGUMENT, "registered already", fc_register("echo", &echo, NULL));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "empty", fc_register("", &echo, NULL));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "name", fc_register(NULL, &echo, NULL));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "run", fc_register("null", NULL, NULL));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "'nothing'", fc_unregister("nothing"));
  CHECK(fc_named("") == 0);
  CHECK(fc_named("echo") == fc_named("echo") && fc_named("echo") != fc_named("Echo"));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_named", fc_call(target, 0, NULL, 0, NULL, 0, NULL));

  // Register on the host while the job runs.
  fc_node host;
  NEED(fc_node_at(job, 0, &host) == FC_OK);
  static int64_t more = 1;
  const int64_t numbers[2] = {2, 3};
  int64_t sum = 0;
  CHECK(fc_register("late", &add, &more) == FC_OK);
  CHECK(fc_call(host, fc_named("late"), numbers, sizeof numbers, &sum, sizeof sum, NULL) == FC_OK);
  CHECK(sum == 6);
  CHECK(fc_unregister("late") == FC_OK);
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'late'",
              fc_call(host, fc_named("late"), NULL, 0, NULL, 0, NULL));

  // Unregister on a target, in a handler.
  CHECK(fc_call(target, fc_named("forget"), NULL, 0, NULL, 0, NULL) == FC_OK);
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "'echo'",
              fc_call(target, fc_named("echo"), NULL, 0, NULL, 0, NULL));
}

int main(int argc, char** argv) {
  static int64_t user = 1000;
  NEED(fc_register("echo", &echo, NULL) == FC_OK);
  NEED(fc_register("add", &add, &user) == FC_OK);
  NEED(fc_register("say nothing", &say_nothing, NULL) == FC_OK);
  NEED(fc_register("reply twice", &reply_twice, NULL) == FC_OK);
  NEED(fc_register("keep", &keep, NULL) == FC_OK);
  NEED(fc_register("reply to kept", &reply_to_kept, NULL) == FC_OK);
  NEED(fc_register("who", &who, NULL) == FC_OK);
  NEED(fc_register("ask", &ask, NULL) == FC_OK);
  NEED(fc_register("count", &count, NULL) == FC_OK);
  NEED(fc_register("forget", &forget, NULL) == FC_OK);
  NEED(fc_register("block", &block, NULL) == FC_OK);

  const fc_job_options options = {.size = sizeof options, .targets = "shm:2"};
  fc_job* job = NULL;
  NEED(fc_job_start(&argc, argv, &options, &job) == FC_OK);
  fc_node target;
  NEED(fc_node_at(job, 1, &target) == FC_OK);

  calls_bring_bytes_there_and_back(target);
  handlers_get_their_user_pointer(target);
  errors_arrive(target);
  replies_are_given_once(target);
  replies_are_given_later(target);
  too_little_space_says_how_much_is_needed(target);
  sizes_that_nothing_has_are_refused(target);
  any_node_calls_any(job);
  posts_are_run(target);
  lanes_are_places_to_call(target);
  deadlines_end_waiting(target);
  names_are_registered_at_any_time(job, target);

  const fc_node empty = {0};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_node",
              fc_call(empty, fc_named("x"), NULL, 0, NULL, 0, NULL));
  fc_job_end(job);
  return failures != 0;
}
