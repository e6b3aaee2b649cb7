// SPDX-License-Identifier: Apache-2.0

// Tests of jobs that start without targets, and to which the program adds processes that it forks.
#include "changes.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { status_after_serving = 4 };

static void tell_pid(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)bytes, (void)size, (void)user;
  const pid_t own = getpid();
  fc_reply_bytes(reply, &own, sizeof own);
}

/// Returns a forked process that serves the job at the other end of `*socket`.
static pid_t fork_worker(int* socket) {
  int ends[2];
  NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  fflush(NULL);
  const pid_t child = fork();
  NEED(child >= 0);
  if (child == 0) {
    close(ends[0]);
    _exit(fc_serve_socket(ends[1]) == FC_OK ? status_after_serving : 5);
  }
  close(ends[1]);
  *socket = ends[0];
  return child;
}

/// Returns the process that runs handlers of the node.
static pid_t pid_of(fc_node node) {
  pid_t there = 0;
  CHECK(fc_call(node, fc_named("pid"), NULL, 0, &there, sizeof there, NULL) == FC_OK);
  return there;
}

static int status_of(pid_t child) {
  int status = 0;
  NEED(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forked_processes_join_a_job_without_targets(void) {
  const fc_job_options options = {.size = sizeof options, .targets = "none"};
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  CHECK(fc_job_size(job) == 1);
  struct seen s = nothing_seen;
  NEED(fc_on_node_change(job, see, &s) == FC_OK);

  int socket = -1;
  fc_node first;
  const pid_t first_pid = fork_worker(&socket);
  NEED(fc_node_add_socket(job, socket, 1, FC_NO_NODE, &first) == FC_OK);
  CHECK(first.id == 1 && fc_job_size(job) == 2 && fc_node_alive(first));
  CHECK(pid_of(first) == first_pid);

  fc_node second;
  const pid_t second_pid = fork_worker(&socket);
  NEED(fc_node_add_socket(job, socket, 2, FC_NO_NODE, &second) == FC_OK);
  CHECK(second.id == 2 && pid_of(second) == second_pid && pid_of(first) == first_pid);
  fc_node_description* about = NULL;
  NEED(fc_node_describe(second, &about) == FC_OK);
  CHECK(about->workers == 2 && about->pid == (uint64_t)second_pid);
  CHECK(strcmp(about->transport, "shm") == 0);
  fc_free(about);

  const pid_t unused_pid = fork_worker(&socket);
  CHECK_FAILS(FC_ERROR, "node 1 is alive", fc_node_add_socket(job, socket, 1, 1, NULL));
  CHECK(close(socket) == -1); // the job has closed it
  CHECK(status_of(unused_pid) != status_after_serving);

  // A killed process counts as failed, and another one takes over its work.
  NEED(kill(first_pid, SIGKILL) == 0);
  CHECK(status_of(first_pid) == -1);
  await(&s, 3);
  CHECK(!fc_node_alive(first));
  CHECK_FAILS(FC_ERROR, "existed before", fc_node_restart(first, NULL));
  fc_node third;
  const pid_t third_pid = fork_worker(&socket);
  NEED(fc_node_add_socket(job, socket, 1, first.id, &third) == FC_OK);
  CHECK(third.id == 3 && pid_of(third) == third_pid);

  NEED(fc_node_remove(second) == FC_OK);
  CHECK(status_of(second_pid) == status_after_serving);
  await(&s, 5);
  fc_job_end(job);
  CHECK(status_of(third_pid) == status_after_serving);
  CHECK(s.count == 5);
  check_change(&s, 0, 1, FC_CHANGE_JOINED, FC_NO_NODE);
  check_change(&s, 1, 2, FC_CHANGE_JOINED, FC_NO_NODE);
  check_change(&s, 2, 1, FC_CHANGE_FAILED, FC_NO_NODE);
  check_change(&s, 3, 3, FC_CHANGE_JOINED, 1);
  check_change(&s, 4, 2, FC_CHANGE_REMOVED, FC_NO_NODE);
}

/// Data that replace() reads and writes.
struct pool {
  struct seen seen;
  fc_job* job;
  fc_node node;
  pid_t pid;
};

/// Forks a process in place of one that has failed, on the thread of the callback.
static void replace(const fc_node_event* event, void* user) {
  struct pool* p = user;
  if (event->what == FC_CHANGE_FAILED) {
    int socket = -1;
    p->pid = fork_worker(&socket);
    NEED(fc_node_add_socket(p->job, socket, 1, event->node.id, &p->node) == FC_OK);
  }
  see(event, &p->seen);
}

static void callbacks_may_replace_failed_processes(void) {
  struct pool p = {
      .seen = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}};
  const fc_job_options options = {.size = sizeof options, .targets = "none"};
  NEED(fc_job_start(NULL, NULL, &options, &p.job) == FC_OK);
  NEED(fc_on_node_change(p.job, replace, &p) == FC_OK);
  int socket = -1;
  const pid_t first = fork_worker(&socket);
  NEED(fc_node_add_socket(p.job, socket, 1, FC_NO_NODE, NULL) == FC_OK);
  NEED(kill(first, SIGKILL) == 0);
  CHECK(status_of(first) == -1);
  await(&p.seen, 3);
  check_change(&p.seen, 1, 1, FC_CHANGE_FAILED, FC_NO_NODE);
  check_change(&p.seen, 2, 2, FC_CHANGE_JOINED, 1);
  CHECK(p.node.id == 2 && pid_of(p.node) == p.pid);
  fc_job_end(p.job);
  CHECK(status_of(p.pid) == status_after_serving);
}

static void forked_processes_join_other_targets(void) {
  const fc_job_options options = {.size = sizeof options, .targets = "shm"};
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  int socket = -1;
  fc_node started;
  fc_node forked;
  const pid_t child = fork_worker(&socket);
  NEED(fc_node_add_socket(job, socket, 1, FC_NO_NODE, &forked) == FC_OK);
  NEED(fc_node_at(job, 1, &started) == FC_OK);
  CHECK(forked.id == 2 && pid_of(forked) == child && pid_of(started) != child);
  fc_job_end(job);
  CHECK(status_of(child) == status_after_serving);
}

static void sockets_of_no_process_are_refused(void) {
  const fc_job_options options = {
      .size = sizeof options, .targets = "none", .start_timeout_ms = 20000};
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  int ends[2];
  NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  close(ends[1]);
  CHECK_FAILS(FC_START_FAILED, "fc_serve_socket",
              fc_node_add_socket(job, ends[0], 1, FC_NO_NODE, NULL));
  CHECK(close(ends[0]) == -1);

  NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  CHECK_FAILS(FC_SETTING_ERROR, "SOCK_SEQPACKET",
              fc_node_add_socket(job, ends[0], 1, FC_NO_NODE, NULL));
  CHECK(close(ends[0]) == -1);
  close(ends[1]);

  NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  CHECK_FAILS(FC_SETTING_ERROR, "workers", fc_node_add_socket(job, ends[0], 0, FC_NO_NODE, NULL));
  CHECK(close(ends[0]) == -1);
  close(ends[1]);

  CHECK_FAILS(FC_ERROR, "no node 7", fc_node_add_socket(job, -1, 1, 7, NULL));
  CHECK(fc_job_size(job) == 1);
  fc_job_end(job);
}

int main(void) {
  NEED(fc_register("pid", tell_pid, NULL) == FC_OK);
  NEED(fc_serve_if_target() == FC_OK);
  forked_processes_join_a_job_without_targets();
  callbacks_may_replace_failed_processes();
  forked_processes_join_other_targets();
  sockets_of_no_process_are_refused();
  return failures != 0;
}
