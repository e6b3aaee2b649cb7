// SPDX-License-Identifier: Apache-2.0

// Tests of the options of a job, and of the lines that its targets print.
#include "check.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void print(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)reply, (void)bytes, (void)size, (void)user;
  printf("one\n\n");
  fprintf(stderr, "wrong\n");
  printf("no end");
}

/// Lines of the targets, as text: for each line its node, its stream and "|" at the end.
struct lines {
  pthread_mutex_t mutex;
  char text[1000];
};

static void take(uint32_t node, int stream, const char* line, size_t size, void* user) {
  struct lines* all = user;
  char text[100];
  NEED(size < 50);
  snprintf(text, sizeof text, "%u.%d %.*s|", node, stream, (int)size, line);
  pthread_mutex_lock(&all->mutex);
  strncat(all->text, text, sizeof all->text - strlen(all->text) - 1);
  pthread_mutex_unlock(&all->mutex);
}

/// Makes a job whose targets print, and ends it. Standard output and standard error of this process
/// go to the file `to` meanwhile.
static void print_in_a_job(const fc_job_options* options, FILE* to) {
  fflush(NULL);
  const int output = dup(STDOUT_FILENO);
  const int error = dup(STDERR_FILENO);
  NEED(output >= 0 && error >= 0);
  dup2(fileno(to), STDOUT_FILENO);
  dup2(fileno(to), STDERR_FILENO);
  fc_job* job = NULL;
  const bool is_started = fc_job_start(NULL, NULL, options, &job) == FC_OK;
  bool has_called = is_started;
  for (uint32_t id = 1; is_started && id < fc_job_size(job); ++id) {
    fc_node node;
    has_called = has_called && fc_node_at(job, id, &node) == FC_OK &&
                 fc_call(node, fc_named("print"), NULL, 0, NULL, 0, NULL) == FC_OK;
  }
  fc_job_end(job);
  dup2(output, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  close(output);
  close(error);
  NEED(is_started && has_called);
}

static void content_of(FILE* file, char* text, size_t size) {
  rewind(file);
  text[fread(text, 1, size - 1, file)] = 0;
}

static void lines_of_targets_go_to_the_callback(void) {
  FILE* const file = tmpfile();
  NEED(file != NULL);
  struct lines all = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  const fc_job_options options = {.size = sizeof options,
                                  .targets = "shm:2",
                                  .label = 1, // has no effect
                                  .output = take,
                                  .output_user = &all};
  print_in_a_job(&options, file);
  const char* const expected[] = {"1.1 one|", "1.1 |", "1.2 wrong|", "1.1 no end|",
                                  "2.1 one|", "2.1 |", "2.2 wrong|", "2.1 no end|"};
  size_t size = 0;
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
    CHECK(strstr(all.text, expected[i]) != NULL);
    size += strlen(expected[i]);
  }
  CHECK(strlen(all.text) == size);
  CHECK(strstr(all.text, "1.1 one|") < strstr(all.text, "1.1 no end|"));
  char text[100];
  content_of(file, text, sizeof text);
  CHECK(strcmp(text, "") == 0);
  fclose(file);
}

static void lines_of_targets_are_labelled(void) {
  FILE* const file = tmpfile();
  NEED(file != NULL);
  const fc_job_options options = {.size = sizeof options, .targets = "shm", .label = 1};
  print_in_a_job(&options, file);
  char text[1000];
  content_of(file, text, sizeof text);
  CHECK(strstr(text, "1: one\n") != NULL && strstr(text, "1: no end\n") != NULL);
  fclose(file);
}

static void values_are_checked(void) {
  fc_job* job = NULL;
  const struct {
    fc_job_options options;
    const char* named;
  } wrong[] = {
      {{.size = sizeof(fc_job_options), .targets = "none", .progress = "odd"}, "progress"},
      {{.size = sizeof(fc_job_options), .targets = "none", .process_manager = "odd"},
       "process_manager"},
      {{.size = sizeof(fc_job_options), .targets = "none", .server_key = "odd"}, "server_key"},
      {{.size = sizeof(fc_job_options), .targets = "none", .crash_report = "odd"}, "crash_report"},
      {{.size = sizeof(fc_job_options), .targets = "none", .host_files = "/:odd"}, "host_files"},
      {{.size = sizeof(fc_job_options), .targets = "none", .trace = "/no/such/folder/x"},
       "/no/such"},
      {{.size = sizeof(fc_job_options), .targets = "none", .workers = 1000000}, "workers"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
    CHECK_FAILS(FC_SETTING_ERROR, wrong[i].named,
                fc_job_start(NULL, NULL, &wrong[i].options, &job));
  CHECK(job == NULL);
}

static void workers_are_for_processes_that_exist(void) {
  int pair[2];
  NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  const pid_t child = fork();
  NEED(child >= 0);
  if (child == 0) {
    close(pair[0]);
    _exit(fc_serve_socket(pair[1]) == FC_OK ? 0 : 1);
  }
  close(pair[1]);
  const fc_job_options options = {.size = sizeof options,
                                  .existing_targets = pair,
                                  .existing_target_count = 1,
                                  .progress = "thread",
                                  .workers = 3};
  fc_job* job = NULL;
  fc_node node;
  fc_node_description* about = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  NEED(fc_node_at(job, 1, &node) == FC_OK && fc_node_describe(node, &about) == FC_OK);
  CHECK(about->workers == 3);
  fc_free(about);
  fc_job_end(job);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void a_timeline_is_written(void) {
  char file[] = "/tmp/farcall-trace-XXXXXX";
  const int made = mkstemp(file);
  NEED(made >= 0 && close(made) == 0);
  const fc_job_options options = {.size = sizeof options, .targets = "shm", .trace = file};
  fc_job* job = NULL;
  NEED(fc_job_start(NULL, NULL, &options, &job) == FC_OK);
  fc_job_end(job);
  struct stat status;
  CHECK(stat(file, &status) == 0 && status.st_size > 0);
  unlink(file);
}

int main(void) {
  NEED(fc_register("print", print, NULL) == FC_OK);
  NEED(fc_serve_if_target() == FC_OK);
  workers_are_for_processes_that_exist();
  lines_of_targets_go_to_the_callback();
  lines_of_targets_are_labelled();
  a_timeline_is_written(); // before other jobs with timelines, whose files get numbers
  values_are_checked();
  return failures != 0;
}
