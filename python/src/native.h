// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_PYTHON_NATIVE_H
#define FARCALL_PYTHON_NATIVE_H

/// Declarations of the sources for jobs with targets of every kind: options, events, functions in
/// C, and jobs of equals.

#include "core.h"

#include <farcall/c/library.h>

// ---- events (events.c) --------------------------------------------------------------------------

/// Adds the type Events to the module.
int fcp_add_events_type(PyObject* module);
bool fcp_is_events(PyObject* object);
/// Passes each line that targets print on to the Events that the options name.
void fcp_send_lines_to(fc_job_options* options, PyObject* events);
/// Passes each change of a node of the job on to its Events.
fc_status fcp_send_changes_to(fc_job* job, PyObject* events);

// ---- jobs (options.c) ---------------------------------------------------------------------------

/// start_job(options, is_spmd, events, has_output): starts a job.
PyObject* fcp_start_job_with(PyObject* module, PyObject* arguments);
/// add_node(job, url): starts one more target, and returns its number.
PyObject* fcp_add_node(PyObject* module, PyObject* arguments);
/// restart_node(job, id): starts a target that has ended again, and returns the new number.
PyObject* fcp_restart_node(PyObject* module, PyObject* arguments);
/// describe_node(job, id): a dict that describes the node.
PyObject* fcp_describe_node(PyObject* module, PyObject* arguments);
/// is_alive(job, id): true as long as the node can be reached.
PyObject* fcp_is_alive(PyObject* module, PyObject* arguments);
/// job_size(job): the number of nodes that the job has had so far.
PyObject* fcp_job_size(PyObject* module, PyObject* job);
/// latest_node(job, place): the number of the latest node of a place.
PyObject* fcp_latest_node(PyObject* module, PyObject* arguments);
/// counters(job): a dict of the counts of this process.
PyObject* fcp_counters(PyObject* module, PyObject* job);
/// Returns the job in `object`, or NULL with an exception if it is no Job, or has ended.
fcp_job* fcp_job_in(PyObject* object);

// ---- functions in C (native.c, native_values.c) -------------------------------------------------

/// Types of the parameters and the result of a function, as letters of farcall/c/library.h.
typedef struct fcp_signature {
  char results[32];     ///< letters of the results; more than one only for handlers
  char parameters[128]; ///< a letter for each parameter, and a zero
  size_t count;         ///< number of parameters
  bool has_buffers;     ///< true if a parameter is s, o or x
} fcp_signature;

/// Arguments of a call.
typedef struct fcp_values {
  fc_value* values; ///< `near`, unless there are more
  Py_buffer* views; ///< buffers of parameters s, o and x; NULL if there are none
  size_t view_count;
  size_t buffer_bytes; ///< bytes of all buffers
  fc_value near[8];
} fcp_values;

/// Converts arguments. `name` is the function's name for errors.
int fcp_values_of(fcp_values* to, const fcp_signature* signature, PyObject* const* arguments,
                  size_t count, PyObject* name);
void fcp_values_clear(fcp_values* values);
/// Returns a value as a new object.
PyObject* fcp_object_of(char letter, const fc_value* value);
/// Returns the size of a value of C, or 0 if the letter stands for none.
size_t fcp_size_of(char letter);
/// Reads a signature such as "d(dpl)". Handlers may have several results, and s only as the last
/// one. Raises ValueError.
int fcp_read_signature(fcp_signature* to, const char* text, bool is_handler);
/// Appends the message with the arguments of a handler.
int fcp_pack(fcp_bytes* to, const fcp_signature* signature, const fcp_values* values);
/// Returns the result in a reply of a handler.
PyObject* fcp_unpack(const fcp_signature* signature, const char* bytes, size_t size,
                     PyObject* name);

/// Adds the types Native and Queue to the module.
int fcp_add_native_types(PyObject* module);
/// Notes that this thread has sent a call without waiting for it, so that the next call may have to
/// wait for space.
void fcp_use_lane(void);
/// load_library(job, node, path, timeout_ns): loads a library on the node, and returns its number.
PyObject* fcp_load_library(PyObject* module, PyObject* arguments);
/// unload_library(job, node, number).
PyObject* fcp_unload_library(PyObject* module, PyObject* arguments);
/// last_errno(): errno of the last function in C of this thread.
PyObject* fcp_last_errno(PyObject* module, PyObject* unused);

/// Adds the type Queue to the module (queue.c).
int fcp_add_queue_type(PyObject* module);
bool fcp_is_queue(PyObject* object);
/// Passes a call on to the queue. When it is taken, `finish` releases `call`, drops the future, and
/// returns the result, or NULL with an exception. If this function fails, it drops the future and
/// calls `finish` with NULL in its place.
int fcp_queue_add(PyObject* queue, fc_future* future, PyObject* token, void* call,
                  PyObject* (*finish)(void* call, fc_future* future));

// ---- memory of nodes (buffers.c) ----------------------------------------------------------------

/// allocate(job, node, size, timeout_ns): allocates memory, and returns (span, address).
PyObject* fcp_allocate_on(PyObject* module, PyObject* arguments);
/// release_memory(job, span): frees memory.
PyObject* fcp_release_memory(PyObject* module, PyObject* arguments);
/// put(job, span, offset, buffer, timeout_ns): copies the bytes of the buffer into the memory.
PyObject* fcp_put(PyObject* module, PyObject* arguments);
/// get(job, span, offset, buffer, timeout_ns): copies bytes of the memory into the buffer.
PyObject* fcp_get(PyObject* module, PyObject* arguments);
/// copy(job, from, to, timeout_ns): copies a span to the beginning of another one.
PyObject* fcp_copy(PyObject* module, PyObject* arguments);

// ---- jobs of equals (equals.c) ------------------------------------------------------------------

/// Collectives that combine numbers.
enum fcp_combination { FCP_REDUCE, FCP_ALL_REDUCE, FCP_SCAN };

/// take_part(describe): registers the calls of Python functions that this node takes.
PyObject* fcp_take_part(PyObject* module, PyObject* describe);
/// barrier(job, timeout_ns): waits for all nodes.
PyObject* fcp_barrier(PyObject* module, PyObject* arguments);
/// all_gather(job, bytes, timeout_ns): the bytes of all nodes, one after the other.
PyObject* fcp_all_gather(PyObject* module, PyObject* arguments);
/// broadcast(job, buffer, root, timeout_ns): fills the buffer with the bytes of the root's buffer.
PyObject* fcp_broadcast(PyObject* module, PyObject* arguments);
/// combine(job, kind, buffer, type, operation, root, timeout_ns): combines the numbers of the
/// buffers of all nodes, and stores the result in the buffer. `kind` is one of fcp_combination,
/// `type` an fc_type, and `operation` an fc_operation. For FCP_REDUCE, only the buffer of `root`
/// gets the result.
PyObject* fcp_combine(PyObject* module, PyObject* arguments);
/// close_job(job): ends the job together with the other nodes.
PyObject* fcp_close_job(PyObject* module, PyObject* job);
/// abandon_job(job): never ends the job, so that the end of this process counts as a failure.
PyObject* fcp_abandon_job(PyObject* module, PyObject* job);

#endif
