// SPDX-License-Identifier: Apache-2.0

// Tests of the start and end of jobs, of node descriptions, and of several jobs at a time.
#include "check.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void echo(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  fc_reply_bytes(reply, bytes, size);
}

static void end_now(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply, (void)bytes, (void)size, (void)user;
  _exit(3);
}

static void start_a_job(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  fc_job* job = NULL;
  const fc_status status = fc_job_start(NULL, NULL, NULL, &job);
  fc_reply_error(reply, fc_status_name(status), fc_error_text());
}

static void options_are_checked(void) {
  fc_job* job = NULL;
  fc_job_options options = {.targets = "shm"};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "size", fc_job_start(NULL, NULL, &options, &job));
  options.size = sizeof options;
  options.targets = "nonsense:1";
  CHECK_FAILS(FC_SETTING_ERROR, "nonsense", fc_job_start(NULL, NULL, &options, &job));
  options.targets = "shm";
  options.program = "/no/such/program";
  CHECK_FAILS(FC_START_FAILED, "/no/such/program", fc_job_start(NULL, NULL, &options, &job));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "job", fc_job_start(NULL, NULL, NULL, NULL));
  CHECK(job == NULL);

  // A program compiled with a later version, whose options have more members.
  struct {
    fc_job_options known;
    uint64_t unknown;
  } later = {{.size = sizeof later, .targets = "shm"}, 1};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "version", fc_job_start(NULL, NULL, &later.known, &job));
  later.unknown = 0;
  NEED(fc_job_start(NULL, NULL, &later.known, &job) == FC_OK);
  fc_job_end(job);
  // A program compiled with an earlier version, whose options had only the first members.
  options.size = offsetof(fc_job_options, program);
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  CHECK(fc_job_size(job) == 2);
  fc_job_end(job);
}

static void several_jobs_live_side_by_side(void) {
  CHECK(fc_current_job() == NULL);
  CHECK(strstr(fc_error_text(), "no job") != NULL);
  CHECK(fc_job_size(NULL) == 0);
  const fc_job_options options = {
      .size = sizeof options, .targets = "shm:2", .spin_us = -1, .yield_after_us = -1};
  fc_job* first = NULL;
  fc_job* second = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &first) == FC_OK);
  CHECK(fc_current_job() == first);
  NEED(fc_job_start(NULL, NULL, NULL, &second) == FC_OK);
  CHECK(fc_current_job() == NULL);
  CHECK(strstr(fc_error_text(), "several jobs") != NULL);
  CHECK(fc_job_size(first) == 3 && fc_job_size(second) == 2);
  fc_node node;
  CHECK_FAILS(FC_ERROR, "several jobs", fc_node_at(NULL, 1, &node));
  fc_job* const jobs[2] = {first, second};
  for (int i = 0; i < 2; ++i) {
    char got = 0;
    NEED(fc_node_at(jobs[i], 1, &node) == FC_OK);
    CHECK(fc_call(node, fc_named("echo"), "y", 1, &got, 1, NULL) == FC_OK && got == 'y');
  }
  fc_job_end(first);
  CHECK(fc_current_job() == second);
  fc_job_end(second);
  fc_job_end(NULL);
}

static void nodes_are_described(fc_job* job) {
  fc_node node;
  fc_node_description* about = NULL;
  NEED(fc_this_node(job, &node) == FC_OK);
  CHECK(node.id == 0);
  NEED(fc_node_describe(node, &about) == FC_OK);
  CHECK(strcmp(about->name, "host") == 0 && about->pid == (uint64_t)getpid());
  CHECK(about->id == 0 && about->cores > 0 && about->architecture[0] != 0);
  fc_free(about);
  NEED(fc_node_at(job, 1, &node) == FC_OK);
  NEED(fc_node_describe(node, &about) == FC_OK);
  CHECK(strcmp(about->transport, "shm") == 0 && about->pid != (uint64_t)getpid());
  CHECK(about->workers == 1 && about->id == 1);
  fc_free(about);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "no node 7", fc_node_at(job, 7, &node));
  CHECK_FAILS(FC_REMOTE_ERROR, "cannot be the host of another",
              fc_call(node, fc_named("start"), NULL, 0, NULL, 0, NULL));
}

static void counts_are_sums(fc_job* job) {
  fc_counter_values before = {.size = sizeof before};
  fc_counter_values after = {.size = sizeof after};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "values", fc_counters(job, NULL));
  fc_counter_values unset = {0};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "size", fc_counters(job, &unset));
  NEED(fc_counters(job, &before) == FC_OK);
  fc_node node;
  fc_span memory;
  char got[2];
  NEED(fc_node_at(job, 1, &node) == FC_OK && fc_allocate(node, 1000, &memory) == FC_OK);
  for (int i = 0; i < 10; ++i)
    CHECK(fc_call(node, fc_named("echo"), "x", 1, got, 1, NULL) == FC_OK);
  CHECK(fc_put(job, memory, "xy", 2) == FC_OK && fc_get(job, memory, got, 2) == FC_OK);
  CHECK(fc_get(job, memory, got, 1) == FC_OK);
  NEED(fc_counters(job, &after) == FC_OK);
  CHECK(after.calls >= before.calls + 10 && after.replies >= before.replies + 10);
  CHECK(after.failures == before.failures);
  CHECK(after.puts == before.puts + 1 && after.bytes_put == before.bytes_put + 2);
  CHECK(after.gets == before.gets + 2 && after.bytes_got == before.bytes_got + 3);
  CHECK(after.copies == before.copies);

  // A program with an earlier header has fewer members; the other bytes are not touched.
  struct {
    fc_counter_values values;
    uint64_t later;
  } other;
  memset(&other, 1, sizeof other);
  other.values.size = offsetof(fc_counter_values, replies);
  CHECK(fc_counters(job, &other.values) == FC_OK);
  CHECK(other.values.calls >= after.calls && other.values.replies == 0x0101010101010101);
  // A program with a later header has more members, which are unknown here.
  other.values.size = sizeof other;
  CHECK(fc_counters(job, &other.values) == FC_OK);
  CHECK(other.values.puts == after.puts && other.later == 0 && other.values.size == sizeof other);
}

static void the_end_of_a_node_is_seen(fc_job* job) {
  fc_node node;
  NEED(fc_node_at(job, 1, &node) == FC_OK);
  CHECK(fc_node_alive(node));
  CHECK_FAILS(FC_NODE_FAILED, "node 1", fc_call(node, fc_named("end"), NULL, 0, NULL, 0, NULL));
  CHECK(fc_error_node() == 1);
  CHECK(!fc_node_alive(node));
  const fc_node empty = {0};
  CHECK(!fc_node_alive(empty));
}

static void processes_that_exist_join(void) {
  int pair[2];
  NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  const pid_t child = fork();
  NEED(child >= 0);
  if (child == 0) {
    close(pair[0]);
    _exit(fc_serve_socket(pair[1]) == FC_OK ? 4 : 5);
  }
  close(pair[1]);
  const fc_job_options options = {
      .size = sizeof options, .existing_targets = pair, .existing_target_count = 1};
  fc_job* job = NULL;
  fc_node node;
  char got = 0;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  CHECK(fc_job_size(job) == 2);
  NEED(fc_node_at(job, 1, &node) == FC_OK);
  CHECK(fc_call(node, fc_named("echo"), "z", 1, &got, 1, NULL) == FC_OK && got == 'z');
  fc_job_end(job);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
  CHECK_FAILS(FC_SETTING_ERROR, "descriptor -1", fc_serve_socket(-1));
}

int main(int argc, char** argv) {
  NEED(fc_register("echo", &echo, NULL) == FC_OK);
  NEED(fc_register("end", &end_now, NULL) == FC_OK);
  NEED(fc_register("start", &start_a_job, NULL) == FC_OK);
  bool served = false;
  NEED(fc_serve_as_target(&served) == FC_OK);
  if (served) return 0;
  CHECK(fc_serve_if_target() == FC_OK);

  processes_that_exist_join();
  options_are_checked();
  several_jobs_live_side_by_side();

  fc_job* job = NULL;
  NEED(fc_job_start(&argc, argv, NULL, &job) == FC_OK);
  nodes_are_described(job);
  counts_are_sums(job);
  the_end_of_a_node_is_seen(job);
  fc_job_end(job);
  return failures != 0;
}
