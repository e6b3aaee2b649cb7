// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <stdlib.h>
#include <string.h>

// After the header, a message has a slot for each piece of large bytes: for the pickle and its
// out-of-band buffers, or for long bytes and texts of the plain encoding. The pieces are in blocks
// of shared memory, or behind the slots, each at a multiple of 16.

enum {
  alignment = 16,
  /// The GIL is released while this many bytes are copied.
  long_copy = 256 * 1024,
  /// A pickle without buffers follows the header directly up to this size.
  small_pickle = 2048
};

static PyObject* dumps;          ///< dumps(object) returns a list of the pickle and its buffers
static PyObject* loads;          ///< loads(pickle) returns the object
static PyObject* load_buffers;   ///< load_buffers(pickle, buffers) returns the object
static PyObject* load_arguments; ///< like load_buffers; arrays become views of their memory

PyObject* fcp_set_pickling(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!PyArg_ParseTuple(arguments, "OOOO", &dumps, &loads, &load_buffers, &load_arguments))
    return NULL;
  Py_INCREF(dumps);
  Py_INCREF(loads);
  Py_INCREF(load_buffers);
  Py_INCREF(load_arguments);
  Py_RETURN_NONE;
}

static void init(fcp_message* m) {
  fcp_bytes_init(&m->head);
  m->parts = NULL;
  m->part_count = 0;
  m->total = 0;
  m->views = NULL;
  m->view_count = 0;
  m->slots_at = 0;
  m->pickled = NULL;
  m->has_large = false;
  m->is_reply = false;
  m->wants_views = false;
  m->job = NULL;
  m->lent = NULL;
  m->lent_count = 0;
}

static void release_views(fcp_message* m) {
  for (size_t i = 0; i < m->view_count; ++i)
    PyBuffer_Release(&m->views[i]);
  m->view_count = 0;
}

void fcp_message_was_sent(fcp_message* m) { m->lent_count = 0; }

void fcp_message_take_back(fcp_message* m) {
  for (size_t i = 0; i < m->lent_count; ++i)
    fcp_drop_slot(m->job->store, &m->lent[i]);
  m->lent_count = 0;
}

void fcp_message_clear(fcp_message* m) {
  fcp_message_take_back(m);
  if (m->views != NULL) {
    release_views(m);
    free(m->views);
    free(m->lent);
    if (m->parts != &m->one) free(m->parts);
    Py_XDECREF((PyObject*)m->job);
  }
  Py_XDECREF(m->pickled);
  fcp_bytes_clear(&m->head);
}

static size_t padding(size_t size) { return (alignment - size % alignment) % alignment; }

static fcp_slot slot_of(const fcp_message* m, size_t i) {
  fcp_slot slot;
  memcpy(&slot, m->head.data + m->slots_at + i * sizeof slot, sizeof slot);
  return slot;
}

static void set_slot(fcp_message* m, size_t i, const fcp_slot* slot) {
  memcpy(m->head.data + m->slots_at + i * sizeof *slot, slot, sizeof *slot);
}

/// Makes the list of parts: the head, and the pieces that are not in blocks.
static int lay_out(fcp_message* m) {
  static const char zeros[alignment];
  m->total = m->head.size;
  m->one = (fc_bytes){m->head.data, m->head.size};
  m->part_count = 1;
  if (m->view_count == 0) {
    m->parts = &m->one;
    return 0;
  }
  if (m->parts == NULL || m->parts == &m->one)
    m->parts = calloc(2 * m->view_count + 1, sizeof *m->parts);
  if (m->parts == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  m->parts[0] = m->one;
  for (size_t i = 0; i < m->view_count; ++i) {
    fcp_slot slot = slot_of(m, i);
    if (slot.place.block != 0) continue;
    const size_t pad = padding(m->total);
    const size_t size = (size_t)m->views[i].len;
    if (pad != 0) m->parts[m->part_count++] = (fc_bytes){zeros, pad};
    m->parts[m->part_count++] = (fc_bytes){m->views[i].buf, size};
    slot.place.at = m->total + pad;
    slot.place.size = size;
    set_slot(m, i, &slot);
    m->total += pad + size;
  }
  return 0;
}

/// Returns the memory of an array to which a buffer refers, or NULL.
static fcp_memory* reference_in(const Py_buffer* view) {
  if (view->len != sizeof(fcp_place) || view->obj == NULL) return NULL;
  PyObject* const owner = PyObject_GetAttrString(view->obj, "obj");
  if (owner == NULL) {
    PyErr_Clear();
    return NULL;
  }
  // The owner lives at least as long as the view.
  Py_DECREF(owner);
  return fcp_referred(owner);
}

/// Passes the bytes of a slot on in a block, if they are large or belong to an array.
static fc_status lend_slot(fcp_message* m, fcp_job* job, uint32_t node, size_t i, fcp_slot* slot) {
  const Py_buffer* const view = &m->views[i];
  const size_t size = (size_t)view->len;
  fcp_memory* memory = m->pickled == NULL || i == 0 ? NULL : reference_in(view);
  if (memory != NULL && memory->was_freed) {
    PyErr_SetString(PyExc_ValueError, "the array was freed");
    return FC_INVALID_ARGUMENT;
  }
  // The hold of an array that this process cannot map cannot be passed on.
  const bool is_mapped = memory == NULL || memory->hold.head != NULL;
  const bool may_share = is_mapped && fcp_may_share(job->store, node);
  if (memory != NULL && memory->job != job) {
    PyErr_SetString(PyExc_ValueError, "an array can be sent only to workers of its own executor; "
                                      "send its content, array.get(), to others");
    return FC_INVALID_ARGUMENT;
  }
  if (memory != NULL && m->is_reply && (!may_share || memory->hold.head == NULL)) {
    PyErr_SetString(PyExc_ValueError, "an array can be a result only on the machine of the caller; "
                                      "return its content, array.get()");
    return FC_INVALID_ARGUMENT;
  }
  if (memory != NULL && !may_share) slot->is_reference = 1;
  if (memory != NULL && may_share && memory->hold.head == NULL) {
    // The memory is on another machine, and its block stays with this process.
    slot->is_reference = 1;
    return FC_OK;
  }
  if (!may_share) return FC_OK;
  if (memory != NULL)
    return fcp_lend_reference(job->store, node, &memory->hold, memory->hold.place.at,
                              memory->hold.place.size, slot);
  memory = m->wants_views && i != 0 ? fcp_array_memory_of(view->buf, size) : NULL;
  if (memory != NULL && memory->job == job) {
    const ptrdiff_t offset = (char*)view->buf - (char*)fcp_content(&memory->hold);
    return fcp_lend_reference(job->store, node, &memory->hold,
                              memory->hold.place.at + (uint64_t)offset, size, slot);
  }
  if (size < FCP_LARGE) return FC_OK;
  if (size < long_copy) return fcp_lend(job->store, node, view->buf, size, slot);
  fc_status status;
  Py_BEGIN_ALLOW_THREADS
  status = fcp_lend(job->store, node, view->buf, size, slot);
  Py_END_ALLOW_THREADS
  return status;
}

fc_status fcp_message_lend(fcp_message* m, fcp_job* job, uint32_t node) {
  if (!m->has_large) return FC_OK;
  if (job->store == NULL) return FC_ENDED;
  if (m->job == NULL) {
    Py_INCREF((PyObject*)job);
    m->job = job;
  }
  fcp_slot* const lent = realloc(m->lent, (m->lent_count + m->view_count) * sizeof *lent);
  if (lent == NULL) {
    PyErr_NoMemory();
    return FC_OUT_OF_MEMORY;
  }
  m->lent = lent;
  for (size_t i = 0; i < m->view_count; ++i) {
    fcp_slot slot = {.ticket = 0};
    const fc_status status = lend_slot(m, job, node, i, &slot);
    if (status != FC_OK) return status;
    set_slot(m, i, &slot);
    if (slot.place.block != 0) m->lent[m->lent_count++] = slot;
  }
  return lay_out(m) == 0 ? FC_OK : FC_OUT_OF_MEMORY;
}

/// Appends a small pickle, which needs no slot.
static int append_pickle(fcp_message* m, fcp_header header, PyObject* pickle) {
  char* bytes = NULL;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(pickle, &bytes, &size) != 0 ||
      fcp_append(&m->head, &header, sizeof header) != 0 ||
      fcp_append(&m->head, bytes, (size_t)size) != 0)
    return -1;
  return lay_out(m);
}

/// Appends the pickle of `object`, after `m->head` has got what precedes the header.
static int put_pickle(fcp_message* m, fcp_header header, PyObject* object) {
  static const fcp_slot empty;
  PyObject* const pickled = PyObject_CallFunctionObjArgs(dumps, object, NULL);
  if (pickled == NULL) return -1;
  const size_t count = (size_t)PyList_Size(pickled);
  if (count == 1 && PyBytes_Size(PyList_GetItem(pickled, 0)) <= small_pickle) {
    m->pickled = pickled;
    return append_pickle(m, header, PyList_GetItem(pickled, 0));
  }
  free(m->views); // put_plain() may have allocated some
  m->views = calloc(count, sizeof *m->views);
  if (m->views == NULL) {
    Py_DECREF(pickled);
    PyErr_NoMemory();
    return -1;
  }
  m->pickled = pickled;
  header.slots = (uint32_t)count;
  if (fcp_append(&m->head, &header, sizeof header) != 0) return -1;
  m->slots_at = m->head.size;
  m->has_large = m->wants_views && count > 1;
  for (size_t i = 0; i < count; ++i) {
    Py_buffer* const view = &m->views[i];
    PyObject* const owner = PyList_GetItem(m->pickled, (Py_ssize_t)i);
    if (fcp_append(&m->head, &empty, sizeof empty) != 0 ||
        PyObject_GetBuffer(owner, view, PyBUF_SIMPLE) != 0)
      return -1;
    ++m->view_count;
    const fcp_slot slot = {.is_reference = i != 0 && reference_in(view) != NULL};
    set_slot(m, i, &slot);
    m->has_large = m->has_large || (size_t)view->len >= FCP_LARGE || slot.is_reference != 0;
  }
  return lay_out(m);
}

static bool has_no_items(PyObject* keywords) {
  return keywords == NULL || keywords == Py_None || PyDict_Size(keywords) == 0;
}

/// Inserts the slots of the long texts that the encoding of values has found.
static int insert_slots(fcp_message* m, size_t header_at) {
  static const fcp_slot empty;
  fcp_header header;
  m->slots_at = header_at + sizeof header;
  const size_t behind = m->head.size - m->slots_at;
  for (size_t i = 0; i < m->view_count; ++i) {
    if (fcp_append(&m->head, &empty, sizeof empty) != 0) return -1;
  }
  char* const slots = m->head.data + m->slots_at;
  memmove(slots + m->view_count * sizeof empty, slots, behind);
  memset(slots, 0, m->view_count * sizeof empty);
  memcpy(&header, m->head.data + header_at, sizeof header);
  header.slots = (uint32_t)m->view_count;
  memcpy(m->head.data + header_at, &header, sizeof header);
  m->has_large = true;
  return lay_out(m);
}

/// Appends the header and the elements of `tuple` in the plain encoding, or only `value` if `tuple`
/// is NULL. Returns 0 if this is not possible.
static int put_plain(fcp_message* m, fcp_header header, PyObject* tuple, PyObject* value) {
  const size_t header_at = m->head.size;
  const Py_ssize_t count = tuple == NULL ? 1 : PyTuple_Size(tuple);
  if (count > UINT16_MAX) return 0;
  header.values = (uint16_t)count;
  if (fcp_append(&m->head, &header, sizeof header) != 0) return -1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int done = fcp_put_value(m, tuple == NULL ? value : PyTuple_GetItem(tuple, i));
    if (done == 1) continue;
    release_views(m);
    m->head.size = header_at;
    return done;
  }
  if (m->view_count != 0) return insert_slots(m, header_at) == 0 ? 1 : -1;
  return lay_out(m) == 0 ? 1 : -1;
}

int fcp_message_of_call(fcp_message* m, uint64_t function, PyObject* arguments,
                        PyObject* keywords) {
  fcp_header header = {.kind = FCP_PLAIN, .flags = fcp_wants_views() ? FCP_WANTS_VIEWS : 0};
  init(m);
  const fcp_prefix prefix = {function, 0};
  if (has_no_items(keywords) && PyTuple_Size(arguments) == 0) {
    memcpy(m->head.data, &prefix, sizeof prefix);
    memcpy(m->head.data + sizeof prefix, &header, sizeof header);
    m->head.size = sizeof prefix + sizeof header;
    return lay_out(m);
  }
  if (fcp_append(&m->head, &prefix, sizeof prefix) != 0) return -1;
  if (has_no_items(keywords)) {
    const int plain = put_plain(m, header, arguments, NULL);
    if (plain != 0) return plain == 1 ? 0 : -1;
  }
  header.kind = FCP_PICKLED;
  PyObject* const both = PyTuple_Pack(2, arguments, keywords == NULL ? Py_None : keywords);
  const int done = both == NULL ? -1 : put_pickle(m, header, both);
  Py_XDECREF(both);
  return done;
}

char* fcp_joined(const fcp_message* m) {
  char* const bytes = malloc(m->total != 0 ? m->total : 1);
  if (bytes == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  char* at = bytes;
  for (size_t i = 0; i < m->part_count; ++i) {
    if (m->parts[i].size != 0) memcpy(at, m->parts[i].at, m->parts[i].size);
    at += m->parts[i].size;
  }
  return bytes;
}

void fcp_number_call(fcp_message* m, uint64_t call) {
  memcpy(m->head.data + offsetof(fcp_prefix, call), &call, sizeof call);
}

int fcp_message_of_result(fcp_message* m, PyObject* result, bool wants_views) {
  fcp_header header = {.kind = FCP_PLAIN};
  init(m);
  if (result == Py_None) return lay_out(m);
  const int plain = put_plain(m, header, NULL, result);
  if (plain != 0) return plain == 1 ? 0 : -1;
  m->is_reply = true;
  m->wants_views = wants_views;
  header.kind = FCP_PICKLED;
  return put_pickle(m, header, result);
}

int fcp_message_of_object(fcp_message* m, enum fcp_kind kind, PyObject* object) {
  const fcp_header header = {.kind = (uint8_t)kind};
  init(m);
  return put_pickle(m, header, object);
}

static PyObject* malformed(void) {
  PyErr_SetString(PyExc_ValueError, "farcall: a message of another node is malformed");
  return NULL;
}

/// Reads the header at the offset `at`. Returns false if the message is too short.
static bool open_message(fcp_arrived* message, fcp_header* header, size_t at) {
  if (message->size < at + sizeof *header) return false;
  memcpy(header, message->bytes + at, sizeof *header);
  message->slots = message->bytes + at + sizeof *header;
  message->slot_count = header->slots;
  return header->slots <= (message->size - at - sizeof *header) / sizeof(fcp_slot);
}

static fcp_slot arrived_slot(const fcp_arrived* message, uint32_t i) {
  fcp_slot slot;
  memcpy(&slot, message->slots + (size_t)i * sizeof slot, sizeof slot);
  return slot;
}

void fcp_drop_message(fcp_store* store, const char* bytes, size_t size, size_t at) {
  fcp_arrived message = {.bytes = bytes, .size = size};
  fcp_header header;
  if (store == NULL || !open_message(&message, &header, at)) return;
  for (uint32_t i = 0; i < message.slot_count; ++i) {
    const fcp_slot slot = arrived_slot(&message, i);
    fcp_drop_slot(store, &slot);
  }
}

/// True if messages of the job can refer to blocks.
static bool has_blocks(const fcp_job* job) {
  return job != NULL && job->store != NULL && job->job != NULL;
}

/// Maps the block of a slot, and returns an object for its bytes.
static PyObject* adopt(fcp_job* job, const fcp_slot* slot) {
  fcp_hold hold;
  fc_status status;
  if (!has_blocks(job)) return malformed();
  // The first block of a node is mapped with the help of other processes.
  Py_BEGIN_ALLOW_THREADS
  status = fcp_adopt(job->store, slot, &hold);
  Py_END_ALLOW_THREADS
  if (status == FC_OK) return fcp_new_memory(job, &hold, slot->is_reference != 0);
  if (status == FC_MALFORMED) return malformed();
  if (status != FC_CANCELLED) return fcp_raise(status);
  PyErr_SetString(PyExc_RuntimeError, "the message was dropped by its sender");
  return NULL;
}

/// Returns the memory to which the message refers. Its block belongs to the sender.
static PyObject* borrow(fcp_job* job, const char* bytes, size_t size) {
  fcp_place place;
  fcp_hold hold;
  if (size != sizeof place || !has_blocks(job)) return malformed();
  memcpy(&place, bytes, size);
  if (!fcp_is_valid_place(&place)) return malformed();
  fcp_borrow(job->store, &place, &hold);
  return fcp_new_memory(job, &hold, true);
}

PyObject* fcp_part_of(const fcp_arrived* message, uint32_t i) {
  if (i >= message->slot_count) return malformed();
  const fcp_slot slot = arrived_slot(message, i);
  if (slot.place.block != 0) return adopt(message->job, &slot);
  if (slot.place.at > message->size || message->size - slot.place.at < slot.place.size)
    return malformed();
  const char* const at = message->bytes + slot.place.at;
  if (slot.is_reference) return borrow(message->job, at, slot.place.size);
  return PyMemoryView_FromMemory((char*)at, (Py_ssize_t)slot.place.size, PyBUF_READ);
}

/// Returns the buffers of a pickle. Sets `*has_arrays` to true if some are memory of arrays.
static PyObject* get_buffers(const fcp_arrived* message, bool* has_arrays) {
  PyObject* const buffers = PyList_New((Py_ssize_t)message->slot_count - 1);
  for (uint32_t i = 1; buffers != NULL && i < message->slot_count; ++i) {
    PyObject* part = fcp_part_of(message, i);
    *has_arrays = *has_arrays || arrived_slot(message, i).is_reference;
    if (part != NULL && PyMemoryView_Check(part)) {
      // Copy the bytes, because objects such as arrays keep them and may change them.
      PyObject* const copy = PyByteArray_FromObject(part);
      Py_DECREF(part);
      part = copy;
    }
    if (part == NULL) {
      Py_DECREF(buffers);
      return NULL;
    }
    PyList_SetItem(buffers, (Py_ssize_t)i - 1, part);
  }
  return buffers;
}

static PyObject* get_pickle(const fcp_arrived* message) {
  PyObject* const pickle =
      message->slot_count != 0
          ? fcp_part_of(message, 0)
          : PyMemoryView_FromMemory((char*)message->slots,
                                    message->bytes + message->size - message->slots, PyBUF_READ);
  if (pickle == NULL) return NULL;
  PyObject* object = NULL;
  if (message->slot_count <= 1) {
    object = PyObject_CallFunctionObjArgs(loads, pickle, NULL);
  } else {
    bool has_arrays = false;
    PyObject* const buffers = get_buffers(message, &has_arrays);
    PyObject* const load = has_arrays && message->is_call ? load_arguments : load_buffers;
    if (buffers != NULL) object = PyObject_CallFunctionObjArgs(load, pickle, buffers, NULL);
    Py_XDECREF(buffers);
  }
  Py_DECREF(pickle);
  return object;
}

/// Returns the values of a message in the plain encoding as a tuple.
static PyObject* get_values(const fcp_arrived* message, Py_ssize_t count) {
  const char* at = message->slots + message->slot_count * sizeof(fcp_slot);
  PyObject* const values = PyTuple_New(count);
  for (Py_ssize_t i = 0; values != NULL && i < count; ++i) {
    PyObject* const value = fcp_get_value(message, &at, message->bytes + message->size);
    if (value == NULL) {
      Py_DECREF(values);
      return NULL;
    }
    PyTuple_SetItem(values, i, value);
  }
  return values;
}

static PyObject* get_arguments(const fcp_arrived* message, const fcp_header* header) {
  if (header->kind != FCP_PLAIN) return get_pickle(message);
  PyObject* const arguments = get_values(message, header->values);
  PyObject* const both = arguments == NULL ? NULL : PyTuple_Pack(2, arguments, Py_None);
  Py_XDECREF(arguments);
  return both;
}

/// True for a pair of positional arguments and keywords, which may be None.
static bool is_pair(PyObject* object) {
  if (!PyTuple_CheckExact(object) || PyTuple_Size(object) != 2) return false;
  PyObject* const keywords = PyTuple_GetItem(object, 1);
  return PyTuple_Check(PyTuple_GetItem(object, 0)) &&
         (keywords == Py_None || PyDict_Check(keywords));
}

PyObject* fcp_arguments_of(fcp_job* job, const char* bytes, size_t size, bool* wants_views) {
  fcp_arrived message = {.job = job, .bytes = bytes, .size = size, .is_call = true};
  fcp_header header;
  if (!open_message(&message, &header, FCP_CALL_PREFIX)) return malformed();
  *wants_views = (header.flags & FCP_WANTS_VIEWS) != 0;
  PyObject* arguments = get_arguments(&message, &header);
  if (arguments != NULL && !is_pair(arguments)) {
    Py_CLEAR(arguments);
    malformed();
  }
  // The slots behind the failed slot still have their blocks.
  if (arguments == NULL && has_blocks(job))
    fcp_drop_message(job->store, bytes, size, FCP_CALL_PREFIX);
  return arguments;
}

static PyObject* get_result(const fcp_arrived* message, const fcp_header* header) {
  const char* at = message->slots + message->slot_count * sizeof(fcp_slot);
  switch ((enum fcp_kind)header->kind) {
  case FCP_PLAIN:
    return fcp_get_value(message, &at, message->bytes + message->size);
  case FCP_PICKLED:
  case FCP_EXCEPTION:
    return get_pickle(message);
  case FCP_UNDEFINED:
  case FCP_RETURNED:
  case FCP_STOPPED:
    Py_RETURN_NONE;
  }
  return malformed();
}

PyObject* fcp_result_of(fcp_job* job, const char* bytes, size_t size, enum fcp_kind* kind) {
  fcp_arrived message = {.job = job, .bytes = bytes, .size = size, .is_call = false};
  fcp_header header;
  *kind = FCP_PLAIN;
  if (size == 0) Py_RETURN_NONE;
  if (!open_message(&message, &header, 0)) return malformed();
  *kind = (enum fcp_kind)header.kind;
  PyObject* const result = get_result(&message, &header);
  if (result == NULL && has_blocks(job)) fcp_drop_message(job->store, bytes, size, 0);
  return result;
}
