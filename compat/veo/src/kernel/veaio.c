/* SPDX-License-Identifier: Apache-2.0 */

/* Implements veaio.h by a queue of operations and a few threads. The threads start with the first
 * operation and never end. */
#include <veaio.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum state { is_idle, is_queued, is_done };

struct ve_aio2_ctx {
  enum state state;
  int writes;
  int fd;
  char* buffer;
  size_t count;
  off_t offset;
  ssize_t result;
  int error;
  struct ve_aio2_ctx* next;
};

/* Guards all variables of this file. The condition `work` wakes the threads that execute
 * operations, and `done` wakes the callers that wait for an operation. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct ve_aio2_ctx* first;
static struct ve_aio2_ctx** end = &first;
static long threads;

static int fail(int error) {
  errno = error;
  return -1;
}

/* Transfers bytes until all are transferred, the file ends, or a system call fails. Several system
 * calls may be needed, because one may transfer fewer bytes than requested. */
static void transfer(struct ve_aio2_ctx* context) {
  size_t moved = 0;
  ssize_t step = 0;
  do {
    const size_t left = context->count - moved;
    const off_t where = context->offset + (off_t)moved;
    step = context->writes ? pwrite(context->fd, context->buffer + moved, left, where)
                           : pread(context->fd, context->buffer + moved, left, where);
    if (step > 0) {
      moved += (size_t)step;
    }
  } while ((step > 0 && moved < context->count) || (step < 0 && errno == EINTR));
  context->error = step < 0 ? errno : 0;
  context->result = step < 0 && moved == 0 ? -1 : (ssize_t)moved;
}

static void* serve(void* unused) {
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (first == NULL) {
      pthread_cond_wait(&work, &mutex);
    }
    struct ve_aio2_ctx* context = first;
    first = context->next;
    if (first == NULL) {
      end = &first;
    }
    pthread_mutex_unlock(&mutex);
    transfer(context);
    pthread_mutex_lock(&mutex);
    context->state = is_done;
    pthread_cond_broadcast(&done);
  }
  return unused;
}

/* Starts the threads. Returns 0 if at least one thread runs. The caller holds the mutex. */
static int start_threads(void) {
  const char* text = getenv("VE_ASYNC_IO_THREAD");
  long wanted = text == NULL ? 4 : strtol(text, NULL, 10);
  wanted = wanted < 1 ? 1 : wanted > 64 ? 64 : wanted;
  int error = 0;
  while (threads < wanted && error == 0) {
    pthread_t thread;
    error = pthread_create(&thread, NULL, serve, NULL);
    if (error == 0) {
      pthread_detach(thread);
      ++threads;
    }
  }
  return threads > 0 ? 0 : error;
}

struct ve_aio_ctx* ve_aio_init(void) { return calloc(1, sizeof(struct ve_aio_ctx)); }

static int is_under_way(struct ve_aio_ctx* context) {
  pthread_mutex_lock(&mutex);
  const int under_way = context->state == is_queued;
  pthread_mutex_unlock(&mutex);
  return under_way;
}

int ve_aio_fini(struct ve_aio_ctx* context) {
  if (context == NULL) {
    return fail(EINVAL);
  }
  if (is_under_way(context)) {
    return fail(EBUSY);
  }
  free(context);
  return 0;
}

static int start(struct ve_aio_ctx* context, int fd, ssize_t count, void* buffer, off_t offset,
                 int writes) {
  if (context == NULL || count < 0 || offset < 0 || (buffer == NULL && count > 0)) {
    return fail(EINVAL);
  }
  pthread_mutex_lock(&mutex);
  int error = context->state == is_queued ? EBUSY : start_threads();
  if (error == 0) {
    context->state = is_queued;
    context->writes = writes;
    context->fd = fd;
    context->buffer = buffer;
    context->count = (size_t)count;
    context->offset = offset;
    context->next = NULL;
    *end = context;
    end = &context->next;
    pthread_cond_signal(&work);
  }
  pthread_mutex_unlock(&mutex);
  return error == 0 ? 0 : fail(error);
}

int ve_aio_write(struct ve_aio_ctx* context, int fd, ssize_t count, void* buffer, off_t offset) {
  return start(context, fd, count, buffer, offset, 1);
}

int ve_aio_read(struct ve_aio_ctx* context, int fd, ssize_t count, void* buffer, off_t offset) {
  return start(context, fd, count, buffer, offset, 0);
}

/* Takes the result of an operation that has ended. The caller holds the mutex. */
static int collect(struct ve_aio_ctx* context, ssize_t* retval, int* errnoval) {
  if (context->state == is_idle) {
    return EINVAL;
  }
  *retval = context->result;
  *errnoval = context->error;
  context->state = is_idle;
  return 0;
}

int ve_aio_wait(struct ve_aio_ctx* context, ssize_t* retval, int* errnoval) {
  if (context == NULL || retval == NULL || errnoval == NULL) {
    return fail(EINVAL);
  }
  pthread_mutex_lock(&mutex);
  while (context->state == is_queued) {
    pthread_cond_wait(&done, &mutex);
  }
  const int error = collect(context, retval, errnoval);
  pthread_mutex_unlock(&mutex);
  return error == 0 ? 0 : fail(error);
}

int ve_aio_query(struct ve_aio_ctx* context, ssize_t* retval, int* errnoval) {
  if (context == NULL || retval == NULL || errnoval == NULL) {
    return fail(EINVAL);
  }
  pthread_mutex_lock(&mutex);
  const int under_way = context->state == is_queued;
  const int error = under_way ? 0 : collect(context, retval, errnoval);
  pthread_mutex_unlock(&mutex);
  return under_way ? 1 : error == 0 ? 0 : fail(error);
}
