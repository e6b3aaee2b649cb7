// SPDX-License-Identifier: Apache-2.0
#include "native.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The type Events: lines that targets print, and changes of nodes, on their way from threads of
// farcall to a thread of Python.

typedef struct event {
  struct event* next;
  uint32_t node;
  uint32_t kind;     ///< 0 for a line of output, otherwise an fc_node_change
  uint32_t other;    ///< stream of the line, or number of the node that was replaced
  uint32_t reserved; ///< 0
  size_t size;
  char text[];
} event;

/// Threads that print wait while the events have more bytes.
static const size_t most_bytes = 16 << 20;

typedef struct fcp_events {
  PyObject ob_base;
  pthread_mutex_t lock;
  pthread_cond_t came;  ///< an event has come, or the end
  pthread_cond_t taken; ///< events were taken
  event* first;
  event** last;
  size_t bytes;
  bool is_closed;
} fcp_events;

static PyTypeObject* events_type;

bool fcp_is_events(PyObject* object) { return Py_TYPE(object) == events_type; }

/// Adds an event. Runs without the GIL. Drops it if memory is missing.
static void add(fcp_events* self, uint32_t node, uint32_t kind, uint32_t other, const char* text,
                size_t size) {
  event* const made = malloc(sizeof *made + size);
  if (made == NULL) return;
  *made = (event){.node = node, .kind = kind, .other = other, .size = size};
  if (size != 0) memcpy(made->text, text, size);
  pthread_mutex_lock(&self->lock);
  while (kind == 0 && self->bytes > most_bytes && !self->is_closed)
    pthread_cond_wait(&self->taken, &self->lock);
  *self->last = made;
  self->last = &made->next;
  self->bytes += size;
  pthread_cond_signal(&self->came);
  pthread_mutex_unlock(&self->lock);
}

static void take_line(uint32_t node, int stream, const char* line, size_t size, void* events) {
  add(events, node, 0, (uint32_t)stream, line, size);
}

static void take_change(const fc_node_event* event, void* events) {
  add(events, event->node.id, (uint32_t)event->what, event->replaces, event->why,
      strlen(event->why));
}

void fcp_send_lines_to(fc_job_options* options, PyObject* events) {
  options->output = &take_line;
  options->output_user = events;
}

fc_status fcp_send_changes_to(fc_job* job, PyObject* events) {
  return fc_on_node_change(job, &take_change, events);
}

static PyObject* events_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)type;
  (void)keywords;
  if (!PyArg_ParseTuple(arguments, "")) return NULL;
  fcp_events* const self = PyObject_New(fcp_events, events_type);
  if (self == NULL) return NULL;
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->came, NULL);
  pthread_cond_init(&self->taken, NULL);
  self->first = NULL;
  self->last = &self->first;
  self->bytes = 0;
  self->is_closed = false;
  return (PyObject*)self;
}

static void drop(event* first) {
  while (first != NULL) {
    event* const next = first->next;
    free(first);
    first = next;
  }
}

static void events_dealloc(PyObject* object) {
  fcp_events* const self = (fcp_events*)object;
  drop(self->first);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

/// Returns (kind, node, other, bytes).
static PyObject* describe(const event* e) {
  return Py_BuildValue("(IIIy#)", (unsigned)e->kind, (unsigned)e->node, (unsigned)e->other, e->text,
                       (Py_ssize_t)e->size);
}

static PyObject* list_of(const event* first) {
  PyObject* const list = PyList_New(0);
  for (; list != NULL && first != NULL; first = first->next) {
    PyObject* const each = describe(first);
    const int done = each == NULL ? -1 : PyList_Append(list, each);
    Py_XDECREF(each);
    if (done != 0) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

/// take(): waits for events, and returns a list of them. Returns an empty list after close().
static PyObject* events_take(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_events* const self = (fcp_events*)object;
  event* first = NULL;
  Py_BEGIN_ALLOW_THREADS
  pthread_mutex_lock(&self->lock);
  while (self->first == NULL && !self->is_closed)
    pthread_cond_wait(&self->came, &self->lock);
  first = self->first;
  self->first = NULL;
  self->last = &self->first;
  self->bytes = 0;
  pthread_cond_broadcast(&self->taken);
  pthread_mutex_unlock(&self->lock);
  Py_END_ALLOW_THREADS
  PyObject* const list = list_of(first);
  drop(first);
  return list;
}

/// close(): lets take() return an empty list when all events were taken, and lines never wait.
static PyObject* events_close(PyObject* object, PyObject* unused) {
  (void)unused;
  fcp_events* const self = (fcp_events*)object;
  pthread_mutex_lock(&self->lock);
  self->is_closed = true;
  pthread_cond_broadcast(&self->came);
  pthread_cond_broadcast(&self->taken);
  pthread_mutex_unlock(&self->lock);
  Py_RETURN_NONE;
}

static PyMethodDef events_methods[] = {
    {"take", events_take, METH_NOARGS, NULL},
    {"close", events_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot events_slots[] = {
    {Py_tp_doc, "Lines that targets print, and changes of nodes."},
    {Py_tp_new, (void*)events_new},
    {Py_tp_dealloc, (void*)events_dealloc},
    {Py_tp_methods, events_methods},
    {0, NULL},
};

static PyType_Spec events_spec = {
    .name = "farcall._core.Events",
    .basicsize = sizeof(fcp_events),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = events_slots,
};

int fcp_add_events_type(PyObject* module) {
  events_type = (PyTypeObject*)PyType_FromSpec(&events_spec);
  return events_type == NULL ? -1 : PyModule_AddObjectRef(module, "Events", (PyObject*)events_type);
}
