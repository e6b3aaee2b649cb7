// SPDX-License-Identifier: Apache-2.0
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

typedef struct fcp_job fcp_job;

// ---- blocks of shared memory (blocks.c) ---------------------------------------------------------

/// Blocks of this process in a job.
typedef struct fcp_store fcp_store;

/// Bytes in a block of a node.
typedef struct fcp_place {
  uint64_t at;    ///< address of the bytes on the node
  uint64_t size;  ///< number of bytes
  uint64_t block; ///< address of the block on the node; 0 for none
  uint64_t whole; ///< bytes of the whole block
  uint32_t node;
  uint32_t index; ///< index of the block on the node
} fcp_place;

/// Use of a block by this process.
typedef struct fcp_hold {
  fcp_place place;
  void* head;       ///< address of the block in this process; NULL if it is not mapped
  int entry;        ///< where the head of the block counts the hold
  bool is_borrowed; ///< true if the head does not count it, or not any more
} fcp_hold;

/// Entry of a message for large bytes, which are in the message or in a block.
typedef struct fcp_slot {
  fcp_place place; ///< if `place.block` is 0, `place.at` is an offset in the message
  uint64_t ticket; ///< number by which the receiver takes the hold of the block over
  /// 1 if the bytes are an fcp_place, whose hold comes with the message
  uint64_t is_reference;
} fcp_slot;

/// Registers the handlers of this file.
int fcp_register_blocks(void);
/// Returns the store of the job, which is new if there is none. Returns NULL if memory is missing.
fcp_store* fcp_store_open(fc_job* job);
/// Lets the store send nothing to other nodes any more, after the end of the job.
void fcp_store_detach(fcp_store* store);
/// Frees unused blocks, and sends nothing to other nodes any more. Call it before the end of the
/// job.
void fcp_store_end(fcp_store* store);
void fcp_store_free(fcp_store* store);
/// Frees blocks that only processes that have ended have used.
void fcp_store_collect(fcp_store* store);
/// Sets `counts` to the number and bytes of the blocks in use, and of the free blocks.
void fcp_store_count(fcp_store* store, uint64_t counts[4]);
/// set_sharing(yes): with False, treats all nodes as if they were on other machines. For tests.
PyObject* fcp_set_sharing(PyObject* module, PyObject* yes);
/// True if the node can map blocks of this process.
bool fcp_may_share(fcp_store* store, uint32_t node);

/// Allocates a block on the node, and holds it. Waits for the node. Returns FC_MALFORMED if the
/// node has replied with an invalid place.
fc_status fcp_allocate(fcp_store* store, fc_node node, uint64_t size, fcp_hold* hold);
/// True if the bytes are in the content of their block. Check places that another process has sent,
/// because addresses of this process are computed from them.
bool fcp_is_valid_place(const fcp_place* place);
/// Maps a block that the sender of a message holds until the call has ended. The place is valid.
void fcp_borrow(fcp_store* store, const fcp_place* place, fcp_hold* hold);
/// Returns the address of the bytes of a hold that is mapped.
void* fcp_content(const fcp_hold* hold);
/// Drops a hold, and unmaps the block. If not `is_owned`, the hold belongs to another process.
void fcp_drop(fcp_store* store, fcp_hold* hold, bool is_owned);
/// Copies bytes to a block for the node `to`, and passes its hold on to the slot of a message.
fc_status fcp_lend(fcp_store* store, uint32_t to, const void* bytes, size_t size, fcp_slot* slot);
/// Passes a new hold of a block on to the slot of a message. `at` and `size` are the part of the
/// block that the receiver gets, as on its node.
fc_status fcp_lend_reference(fcp_store* store, uint32_t to, const fcp_hold* hold, uint64_t at,
                             uint64_t size, fcp_slot* slot);
/// Maps the block of a slot, and takes its hold over. Returns FC_CANCELLED if the message was
/// dropped, and FC_MALFORMED if the slot is invalid.
fc_status fcp_adopt(fcp_store* store, const fcp_slot* slot, fcp_hold* hold);
/// Drops the hold of a slot, unless the receiver has taken it over.
void fcp_drop_slot(fcp_store* store, const fcp_slot* slot);
/// Returns how often this process and its ancestors were forked. Holds belong to the parent.
uint32_t fcp_forks(void);

// ---- memory of blocks (memory.c) ----------------------------------------------------------------

/// Bytes of a block, with a hold of the block. The type has the buffer protocol.
typedef struct fcp_memory {
  PyObject ob_base;
  fcp_job* job;
  fcp_hold hold;
  uint32_t forks;          ///< fcp_forks() when the object was made
  bool was_freed;          ///< true after free()
  bool is_array;           ///< true if arrays use it, so that results may refer to it
  size_t exports;          ///< number of buffers of the object in use
  struct fcp_memory* next; ///< list of all memory of arrays
  struct fcp_memory* previous;
} fcp_memory;

int fcp_add_memory_types(PyObject* module);
/// Returns a new object, which owns the hold.
PyObject* fcp_new_memory(fcp_job* job, fcp_hold* hold, bool is_array);
/// memory(node, size): allocates memory for an array on the node.
PyObject* fcp_job_memory(fcp_job* job, PyObject* arguments);
/// Returns the memory to which a reference refers, or NULL if the object is no reference.
fcp_memory* fcp_referred(PyObject* object);
/// Returns the memory of an array that contains these bytes, or NULL.
fcp_memory* fcp_array_memory_of(const void* at, size_t size);
bool fcp_is_memory(PyObject* object);
/// Raises an error unless the memory can be copied from and to.
int fcp_check_memory(const fcp_memory* memory);
/// Returns the address of the memory for a buffer, and counts the buffer. Raises an error if this
/// process cannot use the memory.
char* fcp_export_memory(fcp_memory* memory);
void fcp_end_export(fcp_memory* memory);
/// zero_copy(step): begins (1) or ends (-1) a part of the thread whose calls get views as results.
PyObject* fcp_zero_copy(PyObject* module, PyObject* step);
/// True in such a part of the calling thread.
bool fcp_wants_views(void);

// ---- copies whose caller waits (copies.c) -------------------------------------------------------

/// Waits for a copy between FCP_BEGIN_WAIT and FCP_END_WAIT, and drops it. `begun` is the status of
/// the function that has begun it. If a signal ends the wait, sets `*left` to the copy, which goes
/// on, and returns FC_INTERRUPTED.
fc_status fcp_await_copy(fc_status begun, fc_future* copy, fc_future** left);
/// Keeps the buffer, whose owner gives it away, and the memory until the copy has ended. Both may
/// be NULL.
void fcp_leave_copy(fc_future* copy, Py_buffer* buffer, PyObject* memory);
/// Releases the memory of such copies that have ended.
void fcp_end_left_copies(void);

// ---- views of memory (views.c) ------------------------------------------------------------------

/// Adds the type View, on which arrays stand.
int fcp_add_view_type(PyObject* module);

// ---- messages (messages.c) ----------------------------------------------------------------------

/// Kind of a message's content.
enum fcp_kind {
  FCP_PLAIN = 0,     ///< values in the encoding of values.c
  FCP_PICKLED = 1,   ///< a pickle and its out-of-band buffers
  FCP_EXCEPTION = 2, ///< like FCP_PICKLED; the object describes an exception
  FCP_UNDEFINED = 3, ///< reply of a worker that does not know the function
  FCP_RETURNED = 4,  ///< reply of a worker that was busy, and has not run the call
  FCP_STOPPED = 5    ///< reply of a worker that has stopped the call
};

/// Bit of the numbers of methods of actors.
#define FCP_ACTOR_BIT (UINT64_C(1) << 63)
/// Bit of the numbers of calls that threads of actors run, so that the worker is free for others.
#define FCP_ASIDE_BIT (UINT64_C(1) << 38)

/// Beginning of each message of a call. An fcp_header follows.
typedef struct fcp_prefix {
  uint64_t function; ///< number of the function
  uint64_t call;     ///< number by which the caller can stop the call, or 0
} fcp_prefix;

enum {
  FCP_CALL_PREFIX = sizeof(fcp_prefix), ///< bytes before the header of a call
  FCP_WANTS_VIEWS = 1,  ///< flag of a call: the result may refer to memory of arrays
  FCP_LARGE = 64 * 1024 ///< number of bytes from which on bytes are sent in blocks
};

/// Beginning of each reply, and of the arguments of a call. The slots follow.
typedef struct fcp_header {
  uint8_t kind;    ///< an fcp_kind
  uint8_t flags;   ///< FCP_WANTS_VIEWS or 0
  uint16_t values; ///< number of values of the plain encoding
  uint32_t slots;  ///< number of slots; the first one is the pickle. If 0, the pickle follows.
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
  Py_buffer* views;  ///< buffers that the parts or blocks contain, one for each slot
  size_t view_count; ///< number of views
  size_t slots_at;   ///< offset of the slots in `head`
  PyObject* pickled; ///< list that owns the pickle and the buffers, or NULL
  bool has_large;    ///< true if bytes may have to be sent in blocks
  bool is_reply;
  bool wants_views;  ///< true for a reply that may refer to memory of arrays
  fcp_job* job;      ///< job of the blocks in `lent`, or NULL
  fcp_slot* lent;    ///< blocks that were passed on
  size_t lent_count; ///< number of elements of `lent`
  fc_bytes one;
} fcp_message;

/// Makes the message of a call. Uses the plain encoding if all arguments permit it.
int fcp_message_of_call(fcp_message* m, uint64_t function, PyObject* arguments, PyObject* keywords);
/// Appends the message of a call with one integer. Needs no GIL. Returns -1 if there is no memory.
int fcp_put_call_of_int(fcp_bytes* to, uint64_t function, int64_t number);
/// Makes the message of a reply. If `wants_views`, it may refer to memory of arrays.
int fcp_message_of_result(fcp_message* m, PyObject* result, bool wants_views);
/// Makes a message of an object that is always pickled.
int fcp_message_of_object(fcp_message* m, enum fcp_kind kind, PyObject* object);
/// Copies large bytes of the message to blocks for the node. Call it before each sending; otherwise
/// the message itself contains all bytes.
fc_status fcp_message_lend(fcp_message* m, fcp_job* job, uint32_t node);
/// Frees the blocks of the message that no receiver has taken over.
void fcp_message_take_back(fcp_message* m);
/// Leaves the blocks of the message to the receiver. Call it after a reply was sent.
void fcp_message_was_sent(fcp_message* m);
/// Sets the number by which the caller can stop the call.
void fcp_number_call(fcp_message* m, uint64_t call);
/// Releases what a message owns. Does not change the pending exception.
void fcp_message_clear(fcp_message* m);

/// A message that has arrived.
typedef struct fcp_arrived {
  fcp_job* job;
  const char* bytes;
  size_t size;
  const char* slots;
  uint32_t slot_count;
  bool is_call;
} fcp_arrived;

/// Returns the arguments of a call as a new pair (arguments, keywords).
PyObject* fcp_arguments_of(fcp_job* job, const char* bytes, size_t size, bool* wants_views);
/// Returns the object in a reply. Sets `*kind` to the kind of the reply.
PyObject* fcp_result_of(fcp_job* job, const char* bytes, size_t size, enum fcp_kind* kind);
/// Drops the blocks of a message that nobody reads. `at` is the offset of the header. Needs no GIL.
void fcp_drop_message(fcp_store* store, const char* bytes, size_t size, size_t at);
/// Returns the bytes of a slot as a new object, which is a memoryview or an fcp_memory.
PyObject* fcp_part_of(const fcp_arrived* message, uint32_t slot);

/// Python functions of farcall._pickling, which fcp_set_pickling() sets.
PyObject* fcp_set_pickling(PyObject* module, PyObject* arguments);

// ---- values (values.c) --------------------------------------------------------------------------

int fcp_append(fcp_bytes* to, const void* bytes, size_t size);
/// Like fcp_append(), but needs no GIL, and returns false if there is no memory.
bool fcp_append_raw(fcp_bytes* to, const void* bytes, size_t size);
void fcp_bytes_init(fcp_bytes* bytes);
void fcp_bytes_clear(fcp_bytes* bytes);

enum { fcp_small_bytes = 9 };

/// Stores a number, a bool or an empty tuple in the plain encoding, in at most fcp_small_bytes.
/// Returns the number of bytes, or 0 for other values.
size_t fcp_put_small(char* to, PyObject* value);
/// Appends a value in the plain encoding. Returns 1, or 0 if the value has another type, or -1.
/// Adds long bytes and texts to the views of the message.
int fcp_put_value(fcp_message* to, PyObject* value);
/// Returns the value at `*at` as a new object, and moves `*at` behind it.
PyObject* fcp_get_value(const fcp_arrived* message, const char** at, const char* end);

// ---- errors (errors.c) --------------------------------------------------------------------------

/// Sets the exception for the last failure of farcall in this thread, unless there is one already.
/// Returns NULL.
PyObject* fcp_raise(fc_status status);
/// Sets the exception for a status with a text.
void fcp_raise_text(const char* status, PyObject* text);
/// Sets a NodeFailed for the node.
void fcp_raise_failed(const char* text, uint32_t node);
/// Sets the exception that a worker has described. Returns NULL.
PyObject* fcp_raise_remote(PyObject* description, uint32_t node);
/// Returns the pending exception as a new object, and clears it.
PyObject* fcp_take_exception(void);
/// Python functions of farcall._errors, which fcp_set_errors() sets.
PyObject* fcp_set_errors(PyObject* module, PyObject* arguments);

// ---- functions that callers have sent (definitions.c) -------------------------------------------

/// Registers the handler that receives definitions of functions. It runs without Python.
int fcp_register_definitions(void);
/// Returns the function with this number as a new reference. Returns NULL without an exception if
/// the number has no definition.
PyObject* fcp_function(uint64_t number);
/// Adds a definition, as if a caller had sent it.
int fcp_define(uint64_t number, const char* bytes, size_t size);
/// Returns the name of the handler.
fc_function fcp_define_function(void);
/// set_local(number, function): gives a function of this process a number.
PyObject* fcp_set_local(PyObject* module, PyObject* arguments);
/// undefine(number): forgets the function with this number.
PyObject* fcp_undefine(PyObject* module, PyObject* number);

// ---- actors (actors.c) --------------------------------------------------------------------------

/// Registers the handler of requests about actors. It runs without Python.
int fcp_register_actors(void);
int fcp_add_actor_types(PyObject* module);
/// True if threads of an actor run the function.
bool fcp_is_handed(PyObject* function);
/// Puts the call of such a function into the queue of the actor.
void fcp_hand_over(PyObject* function, const fc_taken* taken);
PyObject* fcp_actor_add(PyObject* module, PyObject* arguments);
PyObject* fcp_actor_ask(PyObject* module, PyObject* arguments);
PyObject* fcp_actor_forget(PyObject* module, PyObject* id);

// ---- jobs (jobs.c, job_end.c, outcomes.c) -------------------------------------------------------

/// A node to which a job sends calls.
typedef struct fcp_node {
  fc_node node;
  uint32_t busy;      ///< calls that have not ended
  bool chosen;        ///< true if fcp_begin_call() may choose the node
  bool ready;         ///< true if the node could be chosen at any time
  bool called;        ///< true if the node got a call since it could be chosen first
  bool tracked;       ///< true after Job.track(); before, fcp_free_node() gives the node one call
  void* notes;        ///< mapped memory of the node, with the calls that it has begun
  uint64_t untracked; ///< calls up to this number may have begun before the node used the memory
} fcp_node;

/// Job of this process, as the host or as a worker that calls other workers.
struct fcp_job {
  PyObject ob_base;
  fc_job* job;      ///< NULL after the end of the job
  fcp_store* store; ///< blocks of this process
  fc_queue* queue;  ///< queue of calls that nobody waits for; NULL before the first one
  fcp_node* nodes;
  size_t node_count;
  bool is_host;
  int wake_fd;           ///< eventfd that becomes readable if the thread of the pool is needed
  PyObject* refusal;     ///< text of the reason why there will be no more nodes, or NULL
  PyObject* express;     ///< the fcp_express of the job, which is not owned, or NULL
  PyObject* explain;     ///< explain(error, node, name) returns an exception; may be NULL
  PyObject* before_wait; ///< called before a call waits, or NULL
  PyObject* after_wait;  ///< called after it
  PyObject* events;      ///< events.c: kept while farcall may use it, or NULL
  size_t users;          ///< threads between FCP_BEGIN_USE and FCP_END_USE
  uint64_t asks;         ///< how often workers were asked to return calls that they have not begun
  uint32_t forks;        ///< fcp_forks() when the job was made
};

/// Releases the GIL up to FCP_END_USE, and lets the end of the job wait until then.
#define FCP_BEGIN_USE(job_in_use)                                                                  \
  {                                                                                                \
    fcp_job* const fcp_used = (job_in_use);                                                        \
    ++fcp_used->users;                                                                             \
    Py_BEGIN_ALLOW_THREADS

#define FCP_END_USE                                                                                \
  Py_END_ALLOW_THREADS                                                                             \
  --fcp_used->users;                                                                               \
  }

/// Like FCP_BEGIN_USE and FCP_END_USE. In between, waits of functions that are named at
/// fc_set_interrupt() end with FC_INTERRUPTED if a handler of a signal raises an exception, which
/// is then set.
#define FCP_BEGIN_WAIT(job_in_use)                                                                 \
  FCP_BEGIN_USE(job_in_use)                                                                        \
  fc_set_interrupt(&fcp_is_interrupted, &_save);

#define FCP_END_WAIT                                                                               \
  fc_set_interrupt(NULL, NULL);                                                                    \
  FCP_END_USE

/// Runs handlers of signals. Returns true if one has raised an exception. `*state` is a pointer to
/// the state of the thread, which does not have the GIL.
bool fcp_is_interrupted(void* state);

/// Ends the job. Calls of other threads fail.
void fcp_end_job(fcp_job* job);

/// Sets `*node` to a node of the Job `object`.
int fcp_node_at(PyObject* object, uint32_t id, fc_node* node);
bool fcp_is_job(PyObject* object);
/// Adds the type Job to the module.
int fcp_add_job_type(PyObject* module);
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
/// Replaces the pending exception by one that says why the node has failed during a call of the
/// function `name`, unless `name` is NULL.
void fcp_explain(fcp_job* job, uint32_t id, PyObject* name);
/// Counts one call of the node less.
void fcp_end_call(fcp_job* job, uint32_t id);
/// Finds the node with the fewest calls that can be chosen, if it has fewer than `most` calls.
bool fcp_free_node(fcp_job* job, uint32_t most, fc_node* node);
/// Counts one more call of the node.
void fcp_count_call(fcp_job* job, uint32_t id);
/// Returns the result of a call that has ended, or its exception, or None, and drops the future.
/// Sets `*outcome` as in Job.take().
PyObject* fcp_outcome_of(fcp_job* job, fc_future* future, uint32_t node, int* outcome);
/// Returns an element for Job.take(), or None if the completion needs no more work.
PyObject* fcp_describe_completion(fcp_job* job, const fc_completion* completion);
int64_t fcp_now_ns(void);
/// Waits until the future is ready: first with the GIL, for a short time. Returns -1 if a signal
/// handler has raised an exception.
int fcp_wait(fcp_job* job, fc_future* future);
/// Returns the result of a call that has ended, or raises its error, and drops the future.
/// Returns NULL without an exception if the call has neither a result nor an error; `*kind` then
/// says why. `*status` is set to the status of the call.
PyObject* fcp_finish_call(fcp_job* job, fc_future* future, uint32_t node, fc_status* status,
                          enum fcp_kind* kind);
/// Drops the future of a call, and the blocks of its result when the call has ended.
void fcp_abandon_call(fcp_job* job, fc_future* future);

// ---- functions and messages (functions.c) -------------------------------------------------------

int fcp_add_function_types(PyObject* module);
/// Returns the bytes of a message in one piece, which the caller must free by free(), or NULL.
char* fcp_joined(const fcp_message* m);
/// run_here(function, message): runs a call in this thread, with copies of its arguments, and
/// returns a copy of the result.
PyObject* fcp_run_here(PyObject* module, PyObject* arguments);
/// Returns the message in a Message.
const fcp_message* fcp_message_in(PyObject* object);
/// Returns a new reference to the function of a Function, as workers load it.
PyObject* fcp_loaded(PyObject* function);
/// Returns a new Message of a call. Sets `*is_plain` to true if all values are immutable.
PyObject* fcp_encode(PyObject* function, PyObject* arguments, PyObject* keywords, bool* is_plain);
/// Returns a new Function for any node: function(number, definition).
PyObject* fcp_new_function(fcp_job* job, PyObject* arguments);
/// Sends a call with this number to the node. If this returns FC_NODE_FAILED or FC_WOULD_BLOCK, the
/// call has not run; FC_WOULD_BLOCK is not returned if `may_block`.
fc_status fcp_send(PyObject* function, PyObject* message, fc_node node, uint64_t call,
                   bool may_block, fc_future** future);
bool fcp_is_function(PyObject* object);
bool fcp_is_message(PyObject* object);
/// Returns the number by which farcall calls Python functions on workers.
fc_function fcp_run_function(void);

// ---- workers (serve.c) --------------------------------------------------------------------------

PyObject* fcp_serve_open(PyObject* module, PyObject* arguments);
/// Lets calls that this process serves use the blocks of the job, which is kept from now on.
void fcp_serve_job(fcp_job* job);
/// Registers the names of calls that workers take, unless they are registered. Keeps
/// `describe_exception`.
fc_status fcp_register_calls(PyObject* describe_exception);
PyObject* fcp_serve(PyObject* module, PyObject* arguments);
/// Runs the function with the arguments of the call, unless the call was stopped, and replies.
void fcp_run_taken(const fc_taken* call, PyObject* function);
/// Asks a worker to return calls that it has not begun.
fc_status fcp_ask_to_return(fc_node node);
/// Sends a message to a function of the node without waiting, or returns FC_WOULD_BLOCK.
fc_status fcp_tell(fc_node node, fc_function function, const void* bytes, size_t size);
PyObject* fcp_begin_calls(PyObject* module, PyObject* unused);
PyObject* fcp_begin_wait(PyObject* module, PyObject* unused);
PyObject* fcp_end_calls(PyObject* module, PyObject* unused);
PyObject* fcp_end_wait(PyObject* module, PyObject* unused);
PyObject* fcp_die_with_parent(PyObject* module, PyObject* unused);

// ---- futures (future.c) -------------------------------------------------------------------------

/// State of a future, as in concurrent.futures.
enum fcp_state { FCP_PENDING, FCP_RUNNING, FCP_CANCELLED, FCP_NOTIFIED, FCP_FINISHED };

/// Members of a future.
typedef struct fcp_future {
  PyObject ob_base;
  int state;        ///< an fcp_state
  uint32_t node;    ///< node of the call
  bool has_node;    ///< true once the call was sent
  bool is_express;  ///< true while the future is in a list of Express
  bool is_queued;   ///< true while a queue of farcall refers to the future, and owns it
  uint64_t number;  ///< number of the call, by which it can be stopped
  PyObject* result; ///< or NULL
  PyObject* exception;
  PyObject* made;      ///< condition, or NULL if no thread has waited and no callback was added
  PyObject* waiters;   ///< list, made with the condition
  PyObject* callbacks; ///< list, made with the condition
  PyObject* pool;      ///< pool that sets the result, or NULL
  PyObject* call;      ///< Call of the pool, or NULL
  PyObject* called;    ///< function of the program, for calls of Express
  PyObject* function;  ///< Function, for calls of Express
  PyObject* message;   ///< Message that can be sent again, or NULL
  PyObject* arguments; ///< arguments from which the message can be made again, or NULL
  PyObject* express;   ///< Express that has sent the call, or NULL
  struct fcp_future* next;
  struct fcp_future* previous;
} fcp_future;

int fcp_add_future_type(PyObject* module);
PyObject* fcp_set_future_type(PyObject* module, PyObject* type);
bool fcp_is_future(PyObject* object);
/// Returns a new farcall.Future.
fcp_future* fcp_new_future(void);
/// Drops what was needed to send the call again.
void fcp_forget_call(fcp_future* future);
static inline bool fcp_future_has_ended(const fcp_future* future) {
  return future->state > FCP_RUNNING;
}

// ---- results of map() (results.c) ---------------------------------------------------------------

int fcp_add_results_type(PyObject* module);

// ---- the fast way of calls (express.c) ----------------------------------------------------------

int fcp_add_express_type(PyObject* module);
/// Returns the number of the last call that was sent.
uint64_t fcp_last_number(PyObject* express);
/// True if the completion with this tag is for fcp_complete().
bool fcp_is_express_tag(uint64_t tag);
/// Ends a call of Express. Returns an element for Job.take(), or None.
PyObject* fcp_complete(fcp_job* job, const fc_completion* completion);
/// Takes results until the future has its result, or until another thread takes them.
int fcp_help(PyObject* express, fcp_future* future);

// ---- stops of calls (stops.c) -------------------------------------------------------------------

/// A call that a worker runs.
typedef struct fcp_run {
  int entry;       ///< -1 if the call cannot be stopped
  bool is_stopped; ///< true if the call shall not begin
} fcp_run;

/// Says that the calling thread runs the call with this number.
fcp_run fcp_begin_run(const fc_taken* call, uint64_t number);
/// Says that the call has ended. Returns true if its caller wanted to stop it.
bool fcp_end_run(fcp_run run);
/// Says that the thread leaves the call to another thread, which begins it again. Returns true if
/// the caller wants to stop it. Later requests are kept for the other thread.
bool fcp_leave_run(fcp_run run);
/// Forgets that a call shall be stopped that this process returns. Needs no GIL.
void fcp_forget_stop(const fc_taken* call, uint64_t number);
/// True if the pending exception is the exception that stops a call.
bool fcp_is_stop(void);
/// Registers the handler that fcp_track() calls. Call it before the process serves.
fc_status fcp_register_notes(void);
/// Registers the handler that stops calls. Call it before the process joins a job, because a
/// request that comes before would be lost.
fc_status fcp_register_stops(void);
/// Lets the worker note which calls of this process have begun, in memory that this process reads.
/// Returns its address here, or NULL if there is none. Needs no GIL.
void* fcp_track(fc_job* job, fc_node node);
/// True if the call may have begun. `notes` is the address from fcp_track().
bool fcp_may_have_begun(const void* notes, uint64_t call);
/// Asks a worker to stop a call of this process: not to run it, or to raise an exception in it.
fc_status fcp_ask_to_stop(fc_node node, uint64_t call);
PyObject* fcp_set_stop(PyObject* module, PyObject* type);
/// on_stop(signal, frame): handler of the signal that interrupts calls.
PyObject* fcp_on_stop(PyObject* module, PyObject* arguments);
/// hold_stops(): delays the exception that stops the call of this thread until allow_stops(). An
/// exception that is on its way already may be raised directly after hold_stops().
PyObject* fcp_hold_stops(PyObject* module, PyObject* unused);
PyObject* fcp_allow_stops(PyObject* module, PyObject* unused);
/// on_unraisable(unraisable): hook for exceptions that cannot be raised, for instance in __del__().
/// If one has stopped the call of this thread, raises it again later.
PyObject* fcp_on_unraisable(PyObject* module, PyObject* unraisable);

#endif
