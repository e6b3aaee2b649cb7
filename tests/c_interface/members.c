// SPDX-License-Identifier: Apache-2.0

// Tests of jobs whose nodes are added, removed and restarted.
#include "changes.h"

#include <signal.h>
#include <unistd.h>

static void send_back(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  if (fc_reply_bytes(reply, bytes, size) != FC_OK) abort();
}

static void end_here(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply, (void)bytes, (void)size, (void)user;
  raise(SIGKILL);
}

/// Checks, on a target, that it cannot remove nodes and can still call them.
static void try_to_remove(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  fc_node host;
  if (fc_node_at(NULL, 0, &host) != FC_OK) abort();
  const bool is_refused = fc_node_remove(host) == FC_ERROR &&
                          strstr(fc_error_text(), "only the host") != NULL &&
                          fc_call(host, fc_named("echo"), NULL, 0, NULL, 0, NULL) == FC_OK;
  if (fc_reply_bytes(reply, &is_refused, sizeof is_refused) != FC_OK) abort();
}

int main(int argc, char** argv) {
  NEED(fc_register("echo", send_back, NULL) == FC_OK &&
       fc_register("die", end_here, NULL) == FC_OK);
  NEED(fc_register("try", try_to_remove, NULL) == FC_OK);
  const fc_function echo = fc_named("echo");
  const fc_function die = fc_named("die");
  fc_job* job = NULL;
  const fc_job_options options = {.size = sizeof options, .targets = "shm"};
  NEED(fc_job_start(&argc, argv, &options, &job) == FC_OK);
  struct seen s = nothing_seen;
  NEED(fc_on_node_change(job, see, &s) == FC_OK);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "callback", fc_on_node_change(job, NULL, NULL));

  // An added node can be called like the others.
  fc_node added;
  NEED(fc_node_add(job, "shm", &added) == FC_OK);
  CHECK(added.id == 2 && fc_job_size(job) == 3);
  char back[8];
  size_t size = 0;
  NEED(fc_call(added, echo, "there", 6, back, sizeof back, &size) == FC_OK);
  CHECK(size == 6 && strcmp(back, "there") == 0);
  CHECK_FAILS(FC_INVALID_ARGUMENT, "url", fc_node_add(job, NULL, NULL));
  CHECK_FAILS(FC_SETTING_ERROR, "2 targets", fc_node_add(job, "shm:2", NULL));
  CHECK_FAILS(FC_SETTING_ERROR, "carrier-pigeon", fc_node_add(job, "carrier-pigeon", NULL));

  bool is_refused = false;
  CHECK(fc_call(added, fc_named("try"), NULL, 0, &is_refused, sizeof is_refused, NULL) == FC_OK);
  CHECK(is_refused);

  // A dead node is restarted as a new node.
  fc_node again;
  CHECK_FAILS(FC_ERROR, "alive", fc_node_restart(added, &again));
  CHECK(fc_call(added, die, NULL, 0, NULL, 0, NULL) == FC_NODE_FAILED);
  await(&s, 2);
  NEED(fc_node_restart(added, &again) == FC_OK);
  CHECK(again.id == 3 && fc_node_alive(again) && !fc_node_alive(added));
  CHECK(fc_call(again, echo, "again", 6, back, sizeof back, NULL) == FC_OK);
  CHECK(fc_call(added, echo, "again", 6, back, sizeof back, NULL) == FC_NODE_FAILED);

  // The new node is removed.
  NEED(fc_node_remove(again) == FC_OK);
  CHECK_FAILS(FC_NODE_FAILED, "removed", fc_call(again, echo, "gone", 5, back, sizeof back, NULL));
  fc_node host;
  NEED(fc_node_at(job, 0, &host) == FC_OK);
  CHECK_FAILS(FC_ERROR, "host", fc_node_remove(host));
  const fc_node none = {0};
  CHECK_FAILS(FC_INVALID_ARGUMENT, "fc_node", fc_node_remove(none));

  await(&s, 4);
  fc_job_end(job);
  CHECK(s.count == 4);
  check_change(&s, 0, 2, FC_CHANGE_JOINED, FC_NO_NODE);
  check_change(&s, 1, 2, FC_CHANGE_FAILED, FC_NO_NODE);
  check_change(&s, 2, 3, FC_CHANGE_JOINED, 2);
  check_change(&s, 3, 3, FC_CHANGE_REMOVED, FC_NO_NODE);
  CHECK(!s.all[0].says_why && s.all[1].says_why && s.all[3].says_why);
  return failures != 0;
}
