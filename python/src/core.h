#ifndef FARCALL_PYTHON_CORE_H
#define FARCALL_PYTHON_CORE_H

/// Declarations that the sources of the extension module farcall._core share.
///
/// Functions follow the conventions of CPython: a function that returns NULL or -1 has set an
/// exception, and the caller holds the GIL, unless a comment says otherwise.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <farcall/c/queue.h>
#include <farcall/c/serving.h>
#include <farcall/farcall.h>

#include <stdbool.h>
#include <stdint.h>

// ---- messages (messages.c) ----------------------------------------------------------------------

/// Kind of a message's content.
enum fcp_kind {
  FCP_PLAIN = 0,     ///< values in the encoding of values.c
  FCP_PICKLED = 1,   ///< a pickle, followed by its out-of-band buffers
  FCP_EXCEPTION = 2, ///< like FCP_PICKLED; the object describes an exception
  FCP_UNDEFINED = 3, ///< reply of a worker that does not know the function
  FCP_RETURNED = 4   ///< reply of a worker that was busy, and has not run the call
};

/// Beginning of each message. Calls have the number of the function before it.
typedef struct fcp_header {
  uint32_t kind;  ///< an fcp_kind
  uint32_t count; ///< number of values, or of out-of-band buffers
} fcp_header;

/// Bytes that grow; the first ones need no allocation.
typedef struct fcp_bytes {
  char* data;
  size_t size;
  size_t capacity;
  char near[512];
} fcp_bytes;

/// A message to send: encoded bytes, and buffers of Python objects that are sent without a copy.
typedef struct fcp_message {
  fcp_bytes head;
  fc_bytes* parts;   ///< parts in their order; `one` if there is a single one
  size_t part_count; ///< number of parts
  size_t total;      ///< bytes of all parts
  Py_buffer* views;  ///< buffers that the parts point to
  size_t view_count; ///< number of views
  PyObject* pickled; ///< list that owns the pickle and the buffers, or NULL
  fc_bytes one;
} fcp_message;

/// Makes the message of a call. Uses the plain encoding if all arguments permit it.
int fcp_message_of_call(fcp_message* m, uint64_t function, PyObject* arguments, PyObject* keywords);
/// Makes the message of a reply.
int fcp_message_of_result(fcp_message* m, PyObject* result);
/// Makes a message of an object that is always pickled.
int fcp_message_of_object(fcp_message* m, enum fcp_kind kind, PyObject* object);
/// Releases what a message owns. Does not change the pending exception.
void fcp_message_clear(fcp_message* m);

/// Returns the arguments of a call as a new pair (arguments, keywords).
PyObject* fcp_arguments_of(const char* bytes, size_t size);
/// Returns the object in a reply. Sets `*kind` to the kind of the reply.
PyObject* fcp_result_of(const char* bytes, size_t size, enum fcp_kind* kind);

/// Python functions of farcall._pickling, which fcp_set_pickling() sets.
PyObject* fcp_set_pickling(PyObject* module, PyObject* arguments);

// ---- values (values.c) --------------------------------------------------------------------------

int fcp_append(fcp_bytes* to, const void* bytes, size_t size);
void fcp_bytes_init(fcp_bytes* bytes);
void fcp_bytes_clear(fcp_bytes* bytes);

/// Appends a value in the plain encoding. Returns 1, or 0 if the value has another type, or -1.
int fcp_put_value(fcp_bytes* to, PyObject* value);
/// Returns the value at `*at` as a new object, and moves `*at` behind it.
PyObject* fcp_get_value(const char** at, const char* end);

// ---- errors (errors.c) --------------------------------------------------------------------------

/// Sets the exception for the last failure of farcall in this thread. Returns NULL.
PyObject* fcp_raise(fc_status status);
/// Sets the exception for a status with a text.
void fcp_raise_text(const char* status, PyObject* text);
/// Sets the exception that a worker has described. Returns NULL.
PyObject* fcp_raise_remote(PyObject* description, uint32_t node);
/// Returns the pending exception as a new object, and clears it.
PyObject* fcp_take_exception(void);
/// Python functions of farcall._errors, which fcp_set_errors() sets.
PyObject* fcp_set_errors(PyObject* module, PyObject* arguments);

// ---- functions that callers have sent (definitions.c) -------------------------------------------

/// Registers the handler that receives definitions of functions. It runs without Python.
int fcp_register_definitions(void);
/// Returns the function with this number as a borrowed object. Returns NULL without an exception if
/// the number has no definition.
PyObject* fcp_function(uint64_t number);
/// Returns the name of the handler.
fc_function fcp_define_function(void);

// ---- jobs (jobs.c) ------------------------------------------------------------------------------

/// A node to which a job sends calls.
typedef struct fcp_node {
  fc_node node;
  uint32_t busy; ///< calls that have not ended
  bool chosen;   ///< true if fcp_begin_call() may choose the node
  bool ready;    ///< true if the node could be chosen at any time
  bool called;   ///< true if the node got a call since it could be chosen first
} fcp_node;

/// Job of this process, as the host or as a worker that calls other workers.
typedef struct fcp_job {
  PyObject ob_base;
  fc_job* job;     ///< NULL after the end of the job
  fc_queue* queue; ///< queue of calls that nobody waits for; NULL before the first one
  fcp_node* nodes;
  size_t node_count;
  bool is_host;
  int wake_fd;           ///< eventfd that becomes readable if the thread of the pool is needed
  PyObject* refusal;     ///< text of the reason why there will be no more nodes, or NULL
  PyObject* before_wait; ///< called before a call waits, or NULL
  PyObject* after_wait;  ///< called after it
  PyObject* events;      ///< events.c: kept while farcall may use it, or NULL
} fcp_job;

/// Adds the type Job to the module.
int fcp_add_job_type(PyObject* module);
bool fcp_is_job(PyObject* object);
/// Returns a new Job, which starts its nodes, or which is a job of equals. Keeps `events`, which
/// may be NULL.
PyObject* fcp_start_job(const fc_job_options* options, bool is_spmd, PyObject* events);
/// True, with an exception, if the job has ended.
bool fcp_has_ended(const fcp_job* job);
/// Returns a new Job for the job that this process serves.
PyObject* fcp_job_of_worker(fc_job* job);
/// Chooses the node with the fewest calls, or the node `id` unless it is FC_NO_NODE, and counts one
/// more call of it. Waits while there is no node.
int fcp_begin_call(fcp_job* job, uint32_t id, fc_node* node);
/// Sends no more calls of functions to the node, and tells the thread of the pool that it has
/// failed.
void fcp_node_failed(fcp_job* job, uint32_t id);
/// Counts one call of the node less.
void fcp_end_call(fcp_job* job, uint32_t id);
/// Waits until the future is ready: first with the GIL, for a short time. Returns -1 if a signal
/// handler has raised an exception.
int fcp_wait(fcp_job* job, fc_future* future);
/// Returns the result of a call that has ended, or raises its error, and drops the future.
/// Returns NULL without an exception if the worker has returned the call. `*status` is set to the
/// status of the call.
PyObject* fcp_finish_call(fc_future* future, uint32_t node, fc_status* status);

// ---- functions and messages (functions.c) -------------------------------------------------------

int fcp_add_function_types(PyObject* module);
/// Returns a new Function: function(number, definition).
PyObject* fcp_new_function(fcp_job* job, PyObject* arguments);
/// Sends a call to the node. If this returns FC_NODE_FAILED, the call has not run.
fc_status fcp_send(PyObject* function, PyObject* message, fc_node node, fc_future** future);
bool fcp_is_function(PyObject* object);
bool fcp_is_message(PyObject* object);
/// Returns the number by which farcall calls Python functions on workers.
fc_function fcp_run_function(void);

// ---- workers (serve.c) --------------------------------------------------------------------------

PyObject* fcp_serve_open(PyObject* module, PyObject* arguments);
/// Registers the names of calls that workers take, unless they are registered. Keeps
/// `describe_exception`.
fc_status fcp_register_calls(PyObject* describe_exception);
PyObject* fcp_serve(PyObject* module, PyObject* arguments);
/// Asks a worker to return calls that it has not begun.
fc_status fcp_ask_to_return(fc_node node);
PyObject* fcp_begin_wait(PyObject* module, PyObject* unused);
PyObject* fcp_end_wait(PyObject* module, PyObject* unused);
PyObject* fcp_die_with_parent(PyObject* module, PyObject* unused);

#endif
