// SPDX-License-Identifier: Apache-2.0

// Tests of calls for many elements on several nodes.
#include "check.h"

#include <farcall/c/balanced.h>

#include <sched.h>
#include <stdatomic.h>

enum { elements = 100000, least_of_the_other = 70000 };

typedef struct result {
  int square;
  uint32_t node;
} result;

static atomic_int done_here;

/// Replies with the number of elements that this node has run.
static void tell_done(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  const int done = atomic_load(&done_here);
  if (fc_reply_bytes(reply, &done, sizeof done) != FC_OK) abort();
}

/// Replies with the squares of numbers. Node 1 does so only when node 2 has run most elements.
static void square(fc_reply* reply, const void* bytes, size_t size, void* user) {
  const bool waits = user != NULL;
  const int* const numbers = bytes;
  const size_t count = size / sizeof *numbers;
  fc_node here;
  fc_node other;
  if (size % sizeof *numbers != 0 || count == 0 || fc_this_node(NULL, &here) != FC_OK) abort();
  if (waits && here.id == 1) {
    int done = 0;
    if (fc_node_at(NULL, 2, &other) != FC_OK) abort();
    while (done < least_of_the_other) {
      if (fc_call(other, fc_named("tell done"), NULL, 0, &done, sizeof done, NULL) != FC_OK)
        abort();
    }
  }
  result* const all = malloc(count * sizeof *all);
  if (all == NULL) abort();
  for (size_t i = 0; i < count; ++i)
    all[i] = (result){.square = numbers[i] * numbers[i], .node = here.id};
  atomic_fetch_add(&done_here, (int)count);
  if (fc_reply_bytes(reply, all, count * sizeof *all) != FC_OK) abort();
  free(all);
}

/// Refuses negative numbers, and otherwise replies without bytes.
static void refuse_negative(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  const int* const numbers = bytes;
  for (size_t i = 0; i < size / sizeof *numbers; ++i) {
    if (numbers[i] < 0) {
      if (fc_reply_error(reply, "negative", "a number is negative") != FC_OK) abort();
      return;
    }
  }
}

/// Runs until the call is stopped.
static void run_until_stopped(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  while (!fc_reply_stopped(reply))
    sched_yield();
}

/// Replies to 0 with a byte too many, and runs for all other numbers until the call is stopped.
static void reply_to_zero_wrongly(fc_reply* reply, const void* bytes, size_t size, void* user) {
  static const char result[sizeof(int) + 1];
  int number = 0;
  if (size != sizeof number) abort();
  memcpy(&number, bytes, sizeof number);
  if (number != 0) {
    run_until_stopped(reply, bytes, size, user);
  } else if (fc_reply_bytes(reply, result, sizeof result) != FC_OK) {
    abort();
  }
}

/// Squares numbers on all nodes from a handler, and replies with the sum of the squares.
static void sum_of_squares(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  result all[1000];
  fc_node nodes[2];
  const size_t count = size / sizeof(int);
  int sum = 0;
  if (count > 1000) abort();
  if (fc_node_at(NULL, 1, &nodes[0]) != FC_OK || fc_node_at(NULL, 2, &nodes[1]) != FC_OK) abort();
  if (fc_call_balanced(nodes, 2, fc_named("square"), bytes, count, sizeof(int), all, sizeof *all) !=
      FC_OK)
    abort();
  for (size_t i = 0; i < count; ++i)
    sum += all[i].square;
  if (fc_reply_bytes(reply, &sum, sizeof sum) != FC_OK) abort();
}

static int numbers[elements];
static result results[elements];

static void results_are_in_order(const fc_node* nodes, size_t node_count, const char* function,
                                 size_t count) {
  memset(results, 0, sizeof results);
  CHECK(fc_call_balanced(nodes, node_count, fc_named(function), numbers, count, sizeof *numbers,
                         results, sizeof *results) == FC_OK);
  for (size_t i = 0; i < count; ++i)
    NEED(results[i].square == numbers[i] * numbers[i]);
}

static void a_fast_node_runs_more(const fc_node* nodes) {
  results_are_in_order(nodes, 2, "square if most are done", elements);
  size_t of_second = 0;
  for (size_t i = 0; i < elements; ++i)
    of_second += results[i].node == 2;
  CHECK(of_second >= least_of_the_other);
  CHECK(of_second < elements);
}

static void failures_end_the_calls(const fc_node* nodes) {
  const fc_function refuse = fc_named("refuse negative");
  CHECK(fc_call_balanced(nodes, 2, refuse, numbers, elements, sizeof *numbers, NULL, 0) == FC_OK);
  fc_node stoppable[2] = {fc_stoppable(nodes[0]), fc_stoppable(nodes[1])};
  numbers[elements / 2] = -1;
  CHECK_FAILS(FC_REMOTE_ERROR, "a number is negative",
              fc_call_balanced(nodes, 2, refuse, numbers, elements, sizeof *numbers, NULL, 0));
  CHECK_FAILS(FC_REMOTE_ERROR, "a number is negative",
              fc_call_balanced(stoppable, 2, refuse, numbers, elements, sizeof *numbers, NULL, 0));
  numbers[elements / 2] = 1;
  CHECK_FAILS(FC_ERROR, "each of them has a result of 3 bytes",
              fc_call_balanced(nodes, 2, fc_named("square"), numbers, elements, sizeof *numbers,
                               results, 3));
  CHECK_FAILS(FC_UNKNOWN_FUNCTION, "no such function",
              fc_call_balanced(nodes, 2, fc_named("no such function"), numbers, 5, sizeof *numbers,
                               NULL, 0));
  const fc_node late = fc_within(nodes[0], 1000000);
  CHECK(fc_call_balanced(&late, 1, fc_named("run until stopped"), numbers, elements,
                         sizeof *numbers, NULL, 0) == FC_TIMEOUT);
}

static void replies_of_another_size_stop_the_calls(const fc_node* nodes) {
  const fc_node stoppable[2] = {fc_stoppable(nodes[0]), fc_stoppable(nodes[1])};
  const int few[] = {0, 1, 2, 3};
  CHECK_FAILS(FC_ERROR, "each of them has a result of 4 bytes",
              fc_call_balanced(stoppable, 2, fc_named("reply to zero wrongly"), few, 4, sizeof *few,
                               results, 4));
  // The other calls have ended because they were stopped, so that the nodes reply.
  for (int i = 0; i < 2; ++i) {
    int done = 0;
    CHECK(fc_call(nodes[i], fc_named("tell done"), NULL, 0, &done, sizeof done, NULL) == FC_OK);
  }
}

static void arguments_are_checked(const fc_node* nodes) {
  const fc_function f = fc_named("square");
  CHECK_FAILS(FC_INVALID_ARGUMENT, "at least one node",
              fc_call_balanced(nodes, 0, f, numbers, 1, 4, results, 8));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "nodes",
              fc_call_balanced(NULL, 1, f, numbers, 1, 4, results, 8));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "element_size",
              fc_call_balanced(nodes, 1, f, numbers, 1, 0, results, 8));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "elements",
              fc_call_balanced(nodes, 1, f, NULL, 1, 4, results, 8));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "results",
              fc_call_balanced(nodes, 1, f, numbers, 1, 4, NULL, 8));
  CHECK(fc_call_balanced(nodes, 1, f, numbers, SIZE_MAX / 4, 8, results, 8) == FC_INVALID_ARGUMENT);
  CHECK(fc_call_balanced(nodes, 1, f, numbers, SIZE_MAX / 8, 1, results, 16) ==
        FC_INVALID_ARGUMENT);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "function",
              fc_call_balanced(nodes, 1, 0, numbers, 1, 4, results, 8));
  const fc_node none = {0};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_node",
              fc_call_balanced(&none, 1, f, numbers, 1, 4, results, 8));
  CHECK(fc_call_balanced(nodes, 1, f, NULL, 0, 4, NULL, 8) == FC_OK);
}

int main(int argc, char** argv) {
  static int waits;
  NEED(fc_register("square", square, NULL) == FC_OK);
  NEED(fc_register("square if most are done", square, &waits) == FC_OK);
  NEED(fc_register("tell done", tell_done, NULL) == FC_OK);
  NEED(fc_register("refuse negative", refuse_negative, NULL) == FC_OK);
  NEED(fc_register("run until stopped", run_until_stopped, NULL) == FC_OK);
  NEED(fc_register("reply to zero wrongly", reply_to_zero_wrongly, NULL) == FC_OK);
  NEED(fc_register("sum of squares", sum_of_squares, NULL) == FC_OK);
  const fc_job_options options = {.size = sizeof options, .targets = "shm:2"};
  fc_job* job = NULL;
  fc_node nodes[2];
  NEED(fc_job_start(&argc, argv, &options, &job) == FC_OK);
  NEED(fc_node_at(job, 1, &nodes[0]) == FC_OK && fc_node_at(job, 2, &nodes[1]) == FC_OK);
  for (int i = 0; i < elements; ++i)
    numbers[i] = i % 30000;

  a_fast_node_runs_more(nodes);
  const size_t counts[] = {1, 2, 3, 100, elements};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    results_are_in_order(nodes, 1, "square", counts[i]);
    results_are_in_order(nodes, 2, "square", counts[i]);
  }
  failures_end_the_calls(nodes);
  replies_of_another_size_stop_the_calls(nodes);
  arguments_are_checked(nodes);

  int sum = 0;
  const int few[] = {1, 2, 3, 4};
  CHECK(fc_call(nodes[0], fc_named("sum of squares"), few, sizeof few, &sum, sizeof sum, NULL) ==
        FC_OK);
  CHECK(sum == 30);
  fc_job_end(job);
  return failures != 0;
}
