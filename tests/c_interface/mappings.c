// SPDX-License-Identifier: Apache-2.0

// Tests of memory that the program keeps mapped, in place of its job.
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { size = 1000 };

static void end_here(fc_reply* reply, const void* bytes, size_t count, void* user) {
  (void)reply, (void)bytes, (void)count, (void)user;
  raise(SIGKILL);
}

static void check_usable(void* memory) {
  unsigned char* const bytes = memory;
  memset(bytes, 7, size);
  CHECK(bytes[0] == 7 && bytes[size - 1] == 7);
}

static void memory_outlives_nodes_and_jobs(void) {
  const fc_job_options options = {.size = sizeof options, .targets = "shm:2"};
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  fc_node nodes[3];
  fc_span spans[3];
  void* here[3] = {NULL, NULL, NULL};
  char sent[size];
  memset(sent, 5, sizeof sent);
  for (uint32_t i = 0; i < 3; ++i) {
    NEED(fc_node_at(job, i, &nodes[i]) == FC_OK);
    NEED(fc_allocate(nodes[i], size, &spans[i]) == FC_OK);
    NEED(fc_put(job, spans[i], sent, size) == FC_OK);
    NEED(fc_map_hold(job, spans[i], &here[i]) == FC_OK);
    CHECK(memcmp(here[i], sent, size) == 0);
  }
  void* mapped = NULL;
  CHECK(fc_map(job, spans[1], &mapped) == FC_OK && mapped == here[1]);
  void* again = NULL;
  CHECK(fc_map_hold(job, spans[1], &again) == FC_OK && again == here[1]);

  CHECK(fc_release(job, spans[0]) == FC_OK);
  check_usable(here[0]);
  CHECK(fc_call(nodes[1], fc_named("die"), NULL, 0, NULL, 0, NULL) == FC_NODE_FAILED);
  CHECK(memcmp(here[1], sent, size) == 0);
  CHECK(fc_node_remove(nodes[2]) == FC_OK);
  CHECK(memcmp(here[2], sent, size) == 0);
  CHECK(fc_unmap(again) == FC_OK); // the first mapping remains
  fc_job_end(job);
  for (int i = 0; i < 3; ++i) {
    check_usable(here[i]);
    CHECK(fc_unmap(here[i]) == FC_OK);
    CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_map_hold", fc_unmap(here[i]));
  }
}

static void forked_children_share_the_memory(void) {
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, NULL, &job) == FC_OK);
  fc_node node;
  fc_span span;
  void* here = NULL;
  NEED(fc_node_at(job, 1, &node) == FC_OK && fc_allocate(node, size, &span) == FC_OK);
  NEED(fc_map_hold(job, span, &here) == FC_OK);
  fflush(NULL);
  const pid_t child = fork();
  NEED(child >= 0);
  if (child == 0) {
    check_usable(here);
    CHECK_FAILS(FC_FORKED, "", fc_map_hold(job, span, &here));
    CHECK(fc_unmap(here) == FC_OK);
    _exit(failures);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(((unsigned char*)here)[size - 1] == 7); // by the child
  fc_job_end(job);
  check_usable(here);
  CHECK(fc_unmap(here) == FC_OK);
}

static void other_memory_is_refused(void) {
  const fc_job_options options = {.size = sizeof options, .targets = "none"};
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  char own[size];
  void* here = NULL;
  CHECK_FAILS(FC_ERROR, "not allocated", fc_map_hold(job, fc_own_memory(own, size), &here));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "here", fc_map_hold(job, fc_own_memory(own, size), NULL));
  CHECK(here == NULL);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "here", fc_unmap(NULL));
  CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_map_hold", fc_unmap(own));
  fc_job_end(job);
}

int main(void) {
  NEED(fc_register("die", end_here, NULL) == FC_OK);
  NEED(fc_serve_if_target() == FC_OK);
  memory_outlives_nodes_and_jobs();
  forked_children_share_the_memory();
  other_memory_is_refused();
  return failures != 0;
}
