// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Actors of this worker, and who refers to them. Requests about references run in handlers of
// farcall, without Python, so that they have replies while Python is busy here. The object itself
// is kept by farcall._actors. After the last reference, a call of a Python function drops it.
//
// A reference has a number: the number of the node whose handles refer to the actor, or, while a
// handle is on its way in a reply, a number of 2^32 or more. The first handle that is made from
// this reply takes the place of the latter.

typedef struct actor {
  struct actor* next;
  uint64_t id;
  uint64_t* references;
  size_t count;
  size_t size; ///< bytes of `about`
  char about[];
} actor;

/// Kind of a request.
enum request_kind { HOLD, LEND, RELEASE, GONE };

typedef struct request {
  uint64_t kind; ///< a request_kind
  uint64_t id;   ///< of the actor
  uint64_t reference;
} request;

static actor* first;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static uint64_t drop_number; ///< number of the Python function that drops an actor
static const char actors_name[] = "farcall.python.actors";

/// Returns the pointer to the actor, or to the NULL at the end of the list.
static actor** find(uint64_t id) {
  actor** at = &first;
  while (*at != NULL && (*at)->id != id)
    at = &(*at)->next;
  return at;
}

static bool add_reference(actor* found, uint64_t reference) {
  uint64_t* const grown = realloc(found->references, (found->count + 1) * sizeof *grown);
  if (grown == NULL) return false;
  found->references = grown;
  grown[found->count++] = reference;
  return true;
}

static bool remove_reference(actor* found, uint64_t reference) {
  for (size_t i = 0; i < found->count; ++i) {
    if (found->references[i] != reference) continue;
    found->references[i] = found->references[--found->count];
    return true;
  }
  return false;
}

/// Takes the actor out of the list, and moves it to the list `*unused`.
static void move(actor** at, actor** unused) {
  actor* const found = *at;
  *at = found->next;
  found->next = *unused;
  *unused = found;
}

static void remove_references_of(uint64_t node, actor** unused) {
  actor** at = &first;
  while (*at != NULL) {
    while (remove_reference(*at, node)) {
    }
    if ((*at)->count == 0) {
      move(at, unused);
    } else {
      at = &(*at)->next;
    }
  }
}

/// Frees actors, and lets Python drop their objects. Call it without a lock, because handlers run
/// while a message is sent.
static void drop(actor* unused) {
  while (unused != NULL) {
    actor* const each = unused;
    unused = each->next;
    fcp_bytes bytes;
    fcp_bytes_init(&bytes);
    fc_node own;
    if (fc_this_node(NULL, &own) == FC_OK &&
        fcp_put_call_of_int(&bytes, drop_number, (int64_t)each->id) == 0) {
      fc_post(own, fcp_run_function(), bytes.data, bytes.size);
    }
    fcp_bytes_clear(&bytes);
    free(each->references);
    free(each);
  }
}

/// Runs a request of the node `caller` about an actor. Returns false if there is no memory. For
/// HOLD, `*about` is set to a copy of the bytes about the actor.
static bool run_for(actor** at, const request* r, uint64_t caller, char** about, size_t* size,
                    actor** unused) {
  switch (r->kind) {
  case HOLD:
    *about = malloc((*at)->size + 1);
    if (*about == NULL || !add_reference(*at, caller)) return false;
    remove_reference(*at, r->reference);
    memcpy(*about, (*at)->about, (*at)->size);
    *size = (*at)->size;
    return true;
  case LEND:
    return add_reference(*at, r->reference);
  default:
    remove_reference(*at, r->reference);
    if ((*at)->count == 0) move(at, unused);
    return true;
  }
}

/// Handler of requests. The reply begins with 1 if the actor exists.
static void handle(fc_reply* reply, const void* bytes, size_t size, void* user) {
  (void)user;
  request r;
  if (size != sizeof r) {
    fc_reply_error(reply, "ValueError", "a request about an actor has the wrong size");
    return;
  }
  memcpy(&r, bytes, sizeof r);
  size_t about_size = 0;
  char* about = NULL;
  char found = 0;
  actor* unused = NULL;
  pthread_mutex_lock(&guard);
  actor** const at = find(r.id);
  if (r.kind == GONE) {
    remove_references_of(r.reference, &unused);
  } else if (*at != NULL) {
    found = (char)run_for(at, &r, fc_reply_caller(reply), &about, &about_size, &unused);
  }
  pthread_mutex_unlock(&guard);
  drop(unused);
  fcp_bytes bytes_of_reply;
  fcp_bytes_init(&bytes_of_reply);
  if (fcp_append_raw(&bytes_of_reply, &found, 1) &&
      fcp_append_raw(&bytes_of_reply, about, about_size))
    fc_reply_bytes(reply, bytes_of_reply.data, bytes_of_reply.size);
  else
    fc_reply_error(reply, "MemoryError", "no memory for the description of an actor");
  fcp_bytes_clear(&bytes_of_reply);
  free(about);
}

int fcp_register_actors(void) {
  if (fc_register(actors_name, &handle, NULL) == FC_OK) return 0;
  PyErr_SetString(PyExc_ImportError, fc_error_text());
  return -1;
}

static fc_function actors_function(void) {
  static fc_function number;
  if (number == 0) number = fc_named(actors_name);
  return number;
}

/// actor_add(id, about, holder, number): adds an actor of this worker, to which the node `holder`
/// refers. The function with the number drops its object.
PyObject* fcp_actor_add(PyObject* module, PyObject* arguments) {
  (void)module;
  unsigned long long id = 0;
  unsigned long long number = 0;
  const char* about = NULL;
  Py_ssize_t size = 0;
  unsigned holder = 0;
  if (!PyArg_ParseTuple(arguments, "Ky#IK", &id, &about, &size, &holder, &number)) return NULL;
  actor* const made = calloc(1, sizeof *made + (size_t)size);
  if (made == NULL || !add_reference(made, holder)) {
    free(made);
    return PyErr_NoMemory();
  }
  made->id = id;
  made->size = (size_t)size;
  memcpy(made->about, about, (size_t)size);
  drop_number = number;
  pthread_mutex_lock(&guard);
  made->next = first;
  first = made;
  pthread_mutex_unlock(&guard);
  Py_RETURN_NONE;
}

/// actor_forget(id): forgets the references to an actor, which the program has closed.
PyObject* fcp_actor_forget(PyObject* module, PyObject* id_object) {
  (void)module;
  const unsigned long long id = PyLong_AsUnsignedLongLong(id_object);
  if (PyErr_Occurred()) return NULL;
  actor* unused = NULL;
  pthread_mutex_lock(&guard);
  actor** const at = find(id);
  if (*at != NULL) move(at, &unused);
  pthread_mutex_unlock(&guard);
  if (unused != NULL) free(unused->references);
  free(unused);
  Py_RETURN_NONE;
}

static PyObject* description_in(const char* bytes, size_t size) {
  if (size == 0 || bytes[0] == 0) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize(bytes + 1, (Py_ssize_t)size - 1);
}

/// Sends a request, and waits for its reply if it has one.
static PyObject* ask(fcp_job* job, fc_node node, const request* r) {
  const fc_bytes part = {r, sizeof *r};
  fc_status status;
  if (r->kind == RELEASE || r->kind == GONE) {
    FCP_BEGIN_USE(job)
    status = fc_post(node, actors_function(), part.at, part.size);
    FCP_END_USE
    if (status != FC_OK) return fcp_raise(status);
    Py_RETURN_NONE;
  }
  fc_future* future = NULL;
  FCP_BEGIN_USE(job)
  status = fc_callv(node, actors_function(), &part, 1, &future);
  FCP_END_USE
  const void* bytes = NULL;
  size_t size = 0;
  if (status == FC_OK) status = fc_future_get(future, &bytes, &size);
  PyObject* const result = status == FC_OK ? description_in(bytes, size) : fcp_raise(status);
  fc_future_drop(future);
  return result;
}

/// actor_ask(job, node, kind, id, reference): sends a request about an actor to its node. Returns
/// bytes about the actor for a request that has a reply, or None if there is no such actor.
PyObject* fcp_actor_ask(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject* job = NULL;
  unsigned node_id = 0;
  unsigned kind = 0;
  unsigned long long id = 0;
  unsigned long long reference = 0;
  if (!PyArg_ParseTuple(arguments, "OIIKK", &job, &node_id, &kind, &id, &reference)) return NULL;
  fc_node node;
  if (fcp_node_at(job, node_id, &node) != 0) return NULL;
  const request r = {kind, id, reference};
  return ask((fcp_job*)job, node, &r);
}

// ---- calls that other threads run ---------------------------------------------------------------

/// Function that threads of an actor run: the thread that takes a call puts it into their queue.
typedef struct handed_object {
  PyObject ob_base;
  PyObject* function;
  PyObject* put; ///< put(call) adds a call to the queue
} handed_object;

/// Call in the queue of an actor.
typedef struct call_object {
  PyObject ob_base;
  fc_taken taken;
  PyObject* function; ///< NULL once the call was run
} call_object;

static PyTypeObject* handed_type;
static PyTypeObject* call_type;

/// Handed(function, put)
static PyObject* handed_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  PyObject* function = NULL;
  PyObject* put = NULL;
  if (!PyArg_ParseTuple(arguments, "OO", &function, &put)) return NULL;
  handed_object* const self = PyObject_New(handed_object, type);
  if (self == NULL) return NULL;
  Py_INCREF(function);
  Py_INCREF(put);
  self->function = function;
  self->put = put;
  return (PyObject*)self;
}

static void handed_dealloc(PyObject* object) {
  handed_object* const self = (handed_object*)object;
  Py_DECREF(self->function);
  Py_DECREF(self->put);
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static void call_dealloc(PyObject* object) {
  call_object* const self = (call_object*)object;
  if (self->function != NULL) {
    fc_reply_error(self->taken.reply, "RuntimeError", "the actor was closed before the call");
    Py_DECREF(self->function);
  }
  PyTypeObject* const type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

/// call(): runs the call, and replies.
static PyObject* call_run(PyObject* object, PyObject* arguments, PyObject* keywords) {
  (void)arguments;
  (void)keywords;
  call_object* const self = (call_object*)object;
  PyObject* const function = self->function;
  self->function = NULL;
  if (function != NULL) {
    fcp_run_taken(&self->taken, function);
    Py_DECREF(function);
  }
  Py_RETURN_NONE;
}

bool fcp_is_handed(PyObject* function) { return Py_TYPE(function) == handed_type; }

void fcp_hand_over(PyObject* function, const fc_taken* taken) {
  handed_object* const handed = (handed_object*)function;
  call_object* const call = PyObject_New(call_object, call_type);
  if (call == NULL) {
    PyErr_Clear();
    fc_reply_error(taken->reply, "MemoryError", "no memory for a call of an actor");
    return;
  }
  call->taken = *taken;
  Py_INCREF(handed->function);
  call->function = handed->function;
  PyObject* const done = PyObject_CallFunctionObjArgs(handed->put, (PyObject*)call, NULL);
  if (done == NULL) PyErr_Clear();
  Py_XDECREF(done);
  Py_DECREF((PyObject*)call);
}

static PyType_Slot handed_slots[] = {
    {Py_tp_doc, "Function that threads of an actor run."},
    {Py_tp_new, (void*)handed_new},
    {Py_tp_dealloc, (void*)handed_dealloc},
    {0, NULL},
};

static PyType_Spec handed_spec = {
    .name = "farcall._core.Handed",
    .basicsize = sizeof(handed_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = handed_slots,
};

static PyType_Slot parts_of_call_type[] = {
    {Py_tp_doc, "Call that a thread of an actor runs."},
    {Py_tp_call, (void*)call_run},
    {Py_tp_dealloc, (void*)call_dealloc},
    {0, NULL},
};

static PyType_Spec spec_of_call_type = {
    .name = "farcall._core.HandedCall",
    .basicsize = sizeof(call_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = parts_of_call_type,
};

int fcp_add_actor_types(PyObject* module) {
  handed_type = (PyTypeObject*)PyType_FromSpec(&handed_spec);
  call_type = (PyTypeObject*)PyType_FromSpec(&spec_of_call_type);
  if (handed_type == NULL || call_type == NULL) return -1;
  return PyModule_AddObjectRef(module, "Handed", (PyObject*)handed_type);
}
