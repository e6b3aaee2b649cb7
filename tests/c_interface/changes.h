// SPDX-License-Identifier: Apache-2.0

/// Changes of nodes that a test waits for.
#ifndef TESTS_C_INTERFACE_CHANGES_H
#define TESTS_C_INTERFACE_CHANGES_H

#include "check.h"

#include <pthread.h>

enum { max_changes = 16 };

struct change {
  uint32_t id;
  fc_node_change what;
  uint32_t replaces;
  bool says_why;
};

/// Changes that see() has got so far.
struct seen {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  uint32_t count;
  struct change all[max_changes];
};

static const struct seen nothing_seen = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                                         .changed = PTHREAD_COND_INITIALIZER};

/// Callback of fc_on_node_change(), whose `user` is a struct seen.
static void see(const fc_node_event* event, void* user) {
  struct seen* s = user;
  pthread_mutex_lock(&s->mutex);
  if (s->count == max_changes) abort();
  s->all[s->count++] = (struct change){.id = event->node.id,
                                       .what = event->what,
                                       .replaces = event->replaces,
                                       .says_why = event->why[0] != 0};
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
}

/// Waits for this many changes.
static void await(struct seen* s, uint32_t count) {
  pthread_mutex_lock(&s->mutex);
  while (s->count < count)
    pthread_cond_wait(&s->changed, &s->mutex);
  pthread_mutex_unlock(&s->mutex);
}

static void check_change(const struct seen* s, uint32_t at, uint32_t id, fc_node_change what,
                         uint32_t replaces) {
  CHECK(s->all[at].id == id && s->all[at].what == what && s->all[at].replaces == replaces);
}

#endif
