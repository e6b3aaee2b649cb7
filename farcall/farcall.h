// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_FARCALL_H
#define FARCALL_FARCALL_H

/// Interface of farcall for C (C11), and for languages that can call C.
///
/// A *job* is a set of processes, which are its *nodes*. This process is the host. It starts the
/// other processes, the targets, which run the same program. Functions are identified by names: a
/// node registers a *handler* under a name, and each node can call this handler with bytes, and
/// gets bytes back. Start reading with fc_job_start(), fc_register() and fc_call().
///
/// Functions that can fail return an fc_status, which is FC_OK for success. After any other status,
/// fc_error_text() describes the failure. Output parameters are written only for FC_OK, unless a
/// comment says otherwise.
///
/// Any thread may use any function. Only one thread at a time may use an fc_future, except in
/// fc_future_stop(), or an fc_reply, except in fc_reply_stopped(). The following functions block:
/// fc_call, fc_callv, fc_future_wait, fc_future_get, fc_wait_all, fc_wait_any, fc_allocate, fc_put,
/// fc_get, fc_copy, fc_lane_open, and functions that send while a lane is full. If they are called
/// in a handler, other handlers run in the meantime. The time for which they block can be limited:
/// by fc_within() if they take a node, and by `timeout_ns` if they have this parameter. A function
/// of the program can end the waits of a thread early (fc_set_interrupt). fc_job_start
/// blocks until all targets have joined, and fc_job_end until they have ended. The functions of
/// this header never throw, but a handler or callback that is written in C++ may throw.
///
/// The header farcall/c/library.h has calls of plain functions of shared libraries.
///
/// Later versions change no structure, except that some get more members; the comments of these
/// structures say so.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Attribute of each function of this header. It exports the function, so that the program and the
/// libraries that the program loads later use the same one.
#define FC_API __attribute__((visibility("default")))

#define FC_VERSION_MAJOR 0 ///< of this header
#define FC_VERSION_MINOR 1 ///< of this header
#define FC_VERSION_PATCH 0 ///< of this header

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the version of the library that the program uses, for example "0.1.0". The macros above
/// contain the version of this header, which may differ.
FC_API const char* fc_version(void);

// ---- errors -------------------------------------------------------------------------------------

/// Result of an operation. Later versions may add values.
typedef enum fc_status {
  FC_OK = 0,
  FC_ERROR = 1, ///< any other error
  /// The handler has reported an error; fc_error_type() returns its type.
  FC_REMOTE_ERROR = 2,
  FC_NODE_FAILED = 3, ///< the node has ended, cannot be reached, or was removed
  /// A deadline has passed. The call may still be running, or may have ended on the node.
  FC_TIMEOUT = 4,
  /// Memory ran out on the node that fc_error_node() returns. If this is FC_NO_NODE, memory ran out
  /// in this process.
  FC_OUT_OF_MEMORY = 5,
  FC_UNKNOWN_FUNCTION = 6, ///< no handler is registered on the node under this name
  FC_WRONG_NODE = 7,       ///< a node has used memory of another node as if it were its own
  FC_START_FAILED = 8,     ///< a target did not start, or did not join the job
  /// The command line, the environment or the options contain an invalid setting.
  FC_SETTING_ERROR = 9,
  FC_MALFORMED = 10,        ///< a peer has sent bytes that are no valid message
  FC_INVALID_ARGUMENT = 11, ///< an argument of the C function is invalid
  FC_FORKED = 12,           ///< this process is a forked child of a process that has the job
  /// On the node, too many handlers wait inside each other, so that the call was not executed.
  FC_NESTED_TOO_DEEP = 13,
  /// fc_future_stop() has ended the call, whose handler may still run on the node.
  FC_CANCELLED = 14,
  /// The call was not sent, because the function would have had to wait (fc_try_call_async).
  FC_WOULD_BLOCK = 15,
  FC_INTERRUPTED = 16, ///< the function of fc_set_interrupt() has ended the wait
  FC_ENDED = 17        ///< the job has ended, so that fc_take() returns no more calls
} fc_status;

/// Returned by fc_error_node() if the error concerns no node.
#define FC_NO_NODE UINT32_MAX

/// Returns the name of a status, for example "FC_TIMEOUT". Never returns NULL.
FC_API const char* fc_status_name(fc_status status);

/// Returns the status of the last call in this thread that has failed, or FC_OK if none has failed.
/// A successful call does not change the result of this function, or of the following three.
FC_API fc_status fc_error_status(void);
/// Returns a text about the last call in this thread that has failed. It says what has failed,
/// names the node and the value that caused it, and often a remedy. Never returns NULL. The text is
/// valid until the next failure in this thread.
FC_API const char* fc_error_text(void);
/// If the last failure in this thread was FC_REMOTE_ERROR, returns the type of the handler's error.
/// This is the type of a C++ exception, such as "std::out_of_range", or the text that the handler
/// has passed to fc_reply_error(). Otherwise returns an empty text. Never returns NULL. The text is
/// valid until the next failure in this thread.
FC_API const char* fc_error_type(void);
/// Returns the number of the node that the last failure in this thread concerns, or FC_NO_NODE.
FC_API uint32_t fc_error_node(void);

// ---- jobs ---------------------------------------------------------------------------------------

/// A set of nodes that call each other. If a function has a job parameter, NULL can be passed for
/// it. NULL means the job of the running handler, and outside handlers the only job of the process.
typedef struct fc_job fc_job;

/// Callback for lines that targets print. `stream` is 1 for the standard output of the target and 2
/// for its standard error. `line` has `size` bytes, without the line end, and is valid only during
/// the callback; it has no zero byte at its end. The last line of a target may have had no line
/// end. A line of more than 64 KiB comes in parts. The callback runs on a thread of the library,
/// for one line at a time. While it runs, targets that print may have to wait, so it must not wait
/// for a target, nor end the job.
typedef void (*fc_output)(uint32_t node, int stream, const char* line, size_t size, void* user);

/// Settings of a job. Fill the struct with zeros, set `size`, and then set the members for which
/// the default is not wanted. A member that is zero gets its value from the environment, or else
/// the default. Later versions add members at the end. By `size` the library knows which members
/// the program has, so that programs need not be compiled again for a new library.
///
///     fc_job_options options = {.size = sizeof options, .targets = "shm:4"};
typedef struct fc_job_options {
  size_t size; ///< sizeof(fc_job_options)
  /// URLs of the targets, such as "shm:4" or "tcp://host:port"; see docs/settings.md. With "none",
  /// the job starts without targets, which can be added later.
  const char* targets;
  const char* program; ///< program that targets run; default: this program
  /// Arguments of the targets, beginning with argv[0], and NULL at the end; default: the arguments
  /// of this process.
  const char* const* arguments;
  const char* key; ///< file with a key that this program has in common with its servers
  /// This program's certificate (PEM file); it and the next two can replace `key`.
  const char* certificate;
  const char* certificate_key; ///< see certificate
  const char* authority;       ///< see certificate
  /// Sockets to processes that existed before the job and become targets of it. The job closes the
  /// sockets.
  const int* existing_targets;
  size_t existing_target_count; ///< number of existing_targets
  uint64_t heap_bytes;          ///< maximum size of the memory that a node can share, in bytes
  uint32_t lane_bytes;          ///< size of a lane's ring in bytes, a power of two
  uint32_t start_timeout_ms;    ///< maximum time until all targets have joined
  /// Time for targets to finish when the job ends; afterwards they are killed.
  uint32_t stop_timeout_ms;
  /// If a server has sent nothing for this time, it counts as failed.
  uint32_t heartbeat_timeout_ms;
  int64_t spin_us; ///< time for which waiting threads spin; -1 for none
  /// Time after which waiting threads also yield the processor; -1 for at once.
  int64_t yield_after_us;
  uint32_t peer_timeout_ms; ///< a target that has not replied for this time is killed
  /// Maximum time for which fc_release() waits. Afterwards the memory stays allocated.
  uint32_t release_timeout_ms;
  uint32_t restart_lost_servers; ///< if not 0, failed targets of servers are restarted
  uint32_t reserved;             ///< 0
  /// "wait": the threads of the host that wait for replies, or call fc_progress(), receive replies
  /// and run continuations. "thread": a thread of the library also does so. See docs/settings.md.
  const char* progress;
  /// Interface by which the processes that mpirun, srun or the like has started find each other:
  /// "auto", "pmix", "pmi", or "none" if each process makes its own job
  const char* process_manager;
  /// Public keys of servers, which replace the check of the servers' certificates; see
  /// docs/guide/09-security.md
  const char* server_key;
  const char* host_files; ///< folders of the host that targets may use, as in "/data:ro,/home/me"
  const char* trace;      ///< file for a timeline of all nodes, written when the job ends
  /// Detail of the report of a target that crashes: "full", "names" or "off"
  const char* crash_report;
  uint32_t workers;    ///< threads that run handlers in each process of existing_targets
  uint32_t label;      ///< if not 0, the number of the node precedes each line that a target prints
  uint32_t survive;    ///< if not 0, the nodes of a job of equals (c/equals.h) go on when one ends
  uint32_t reserved_2; ///< 0
  /// Receives each line that the targets print, for instance for a notebook or a logger. This
  /// process then does not write the lines to its own output, and `label` has no effect. Processes
  /// of existing_targets keep their own output. After fc_job_end() there are no more lines. If
  /// exit() is called before, the last lines come in exit().
  fc_output output;
  void* output_user; ///< passed to `output`
} fc_job_options;

/// Makes a job. Starts the same program once more for every target. In the process of a target,
/// this function serves calls until the job ends, and then ends the process. Therefore call it
/// early in main(), after fc_register(), and before code that only the host should run.
///
/// Removes the options that begin with --farcall- from the command line. These options take
/// precedence over the environment, and the environment over `options`. `argc`, `argv` and
/// `options` may be NULL. The caller owns the job, and must end it with fc_job_end().
FC_API fc_status fc_job_start(int* argc, char** argv, const fc_job_options* options, fc_job** job);

/// Ends the job. First lets the targets finish the calls that have arrived, and then ends the
/// targets. Afterwards futures of the job can still be used; each future that was not ready
/// contains FC_NODE_FAILED. Lanes can still be closed. All other objects of the job must not be
/// used any more. Must not be called in a handler. Does nothing for NULL.
FC_API void fc_job_end(fc_job* job);

/// If this process was started as a target, serves calls until the job ends, and then ends the
/// process. Otherwise returns FC_OK at once. Meant for programs that make their job late, and for
/// programs that are only targets. Call it early in main(), after fc_register().
FC_API fc_status fc_serve_if_target(void);
/// Like fc_serve_if_target(), but returns when the job has ended, and then sets `*served` to true.
/// Sets it to false if this process is no target. Meant for targets that have work to do after the
/// job.
FC_API fc_status fc_serve_as_target(bool* served);
/// Makes this process a target: serves calls until the job ends, and then closes `socket`. The host
/// of the job has the other end of `socket` (fc_job_options.existing_targets). Returns FC_ERROR in
/// a process that has a job.
FC_API fc_status fc_serve_socket(int socket);

/// Returns the job that NULL means as a job parameter (see fc_job). If there is none, or more than
/// one, returns NULL and stores an error.
FC_API fc_job* fc_current_job(void);
/// Returns how many nodes the job has had so far, including the host and nodes that have ended.
/// Counts at most 65,536: a later node gets the place of one that has ended, and is not counted
/// (see fc_latest_node()). If `job` is NULL and means no job, returns 0 and stores an error.
FC_API uint32_t fc_job_size(fc_job* job);

/// Receives the replies that have arrived for calls of all threads, and runs the functions passed
/// to fc_future_then() on the calling thread. Meant for event loops, so that no thread needs to
/// wait for futures. Blocks only while these functions run.
FC_API fc_status fc_progress(fc_job* job);
/// Sets `*fd` to a file descriptor for poll(), epoll or an event loop. It is readable while replies
/// may be waiting. If it is readable, call fc_progress(), which makes it unreadable until more
/// replies arrive, and then test the futures. Both level and edge triggering work in this way. The
/// descriptor may also be readable without a reply. The job owns it, so do not read, write or close
/// it. The first call of this function starts a thread, which sleeps while nothing arrives.
FC_API fc_status fc_wait_fd(fc_job* job, int* fd);

/// Counts of this process in a job since the job began, summed over all lanes and threads. Messages
/// that the library itself sends are included. Set `size` before fc_counters(). Later versions add
/// members at the end.
typedef struct fc_counter_values {
  size_t size;             ///< sizeof(fc_counter_values)
  uint64_t calls;          ///< requests with a reply that this process has sent
  uint64_t posts;          ///< requests without a reply that this process has sent
  uint64_t replies;        ///< replies that were received, or will never come
  uint64_t failures;       ///< calls that have ended with an error
  uint64_t served;         ///< requests for which this process has run a handler
  uint64_t bytes_sent;     ///< bytes of messages, without copies
  uint64_t bytes_received; ///< see bytes_sent
  uint64_t full;           ///< times that a thread waited for space in a lane
  uint64_t sleeps;         ///< times that a thread slept while it waited for messages
  uint64_t puts;           ///< copies from this process to other nodes
  uint64_t gets;           ///< copies from other nodes to this process
  uint64_t copies;         ///< copies between other nodes
  uint64_t bytes_put;      ///< bytes of `puts`
  uint64_t bytes_got;      ///< bytes of `gets`
  uint64_t bytes_copied;   ///< bytes of `copies`
} fc_counter_values;

/// Fills the members of `*values` that `values->size` includes. Does not disturb other threads. The
/// counts only grow, and may be a little old. Returns FC_INVALID_ARGUMENT if `size` is not set, and
/// FC_ERROR if the process has no counters.
FC_API fc_status fc_counters(fc_job* job, fc_counter_values* values);

// ---- nodes --------------------------------------------------------------------------------------

/// Names the node to which a call goes. It can also contain a lane (fc_lane_open), a deadline
/// (fc_within), and a mark for calls that can be stopped (fc_stoppable). It is a plain value, which
/// can be copied within the process. Send the member `id` to tell another node of a node. Valid as
/// long as its job and its lane exist.
typedef struct fc_node {
  fc_job* job;      ///< the node's job
  void* lane;       ///< lane that fc_lane_open() has opened; if NULL, the calling thread's own lane
  int64_t deadline; ///< 0 for none
  uint32_t id;      ///< number of the node: 0 for the host, from 1 on for targets
  uint32_t flags;   ///< 0, or set by fc_stoppable()
} fc_node;

/// Sets `*node` to the node with the number `id`.
FC_API fc_status fc_node_at(fc_job* job, uint32_t id, fc_node* node);
/// Sets `*node` to the latest node that has a place, or has had it, as far as this process knows.
/// Places are counted from 0 to fc_job_size() - 1. The place of a node is its number modulo 65,536.
/// If a job starts more nodes, it gives places of nodes that have ended to new nodes, whose numbers
/// are 65,536 higher. To visit the nodes that are alive, visit all places, and call fc_node_alive()
/// for the latest node of each.
FC_API fc_status fc_latest_node(fc_job* job, uint32_t place, fc_node* node);
/// Sets `*node` to the node that this process is in the job.
FC_API fc_status fc_this_node(fc_job* job, fc_node* node);

/// Returns true as long as the node's process runs and can be reached. Returns false once it has
/// exited, was killed, or cannot be reached any more, and for an invalid node.
FC_API bool fc_node_alive(fc_node node);

/// Description of a node, as fc_node_describe() makes it. Later versions add members at the end.
typedef struct fc_node_description {
  const char* name;         ///< "host", "node 2", or the value of name= in the node's URL
  const char* host;         ///< name of the machine
  const char* architecture; ///< "x86_64", …
  /// Transport from this process to the node: "shm", "tcp", …; "none" if there is no route.
  const char* transport;
  const char* route; ///< reason why this transport was chosen, or why there is none
  uint64_t pid;      ///< process ID
  uint32_t id;       ///< number in the job
  uint32_t cores;    ///< number of processors that the node's process may use
  uint32_t workers;  ///< threads that run handlers
  uint32_t reserved; ///< 0
} fc_node_description;

/// Sets `*description` to a new description of the node. The caller owns the description and its
/// strings, and must release all of them with one fc_free().
FC_API fc_status fc_node_describe(fc_node node, fc_node_description** description);

/// Frees memory that a function of this header has allocated for the caller. Does nothing for NULL.
FC_API void fc_free(void* memory);

/// Returns a copy of `node` with a deadline, which is `timeout_ns` nanoseconds from now. If
/// `timeout_ns` is negative, the copy has no deadline. An operation that is started with the copy
/// ends with FC_TIMEOUT once the deadline has passed. A call that is late is stopped as if by
/// fc_future_stop(). This happens when fc_call() returns, or when the program drops the call's
/// future.
FC_API fc_node fc_within(fc_node node, int64_t timeout_ns);

/// Returns a copy of `node` for calls that can be stopped: fc_future_stop() can end the calls that
/// fc_call_async() makes with the copy. Such a call costs more: an entry in a table of the node
/// while the call runs, and memory in this process.
FC_API fc_node fc_stoppable(fc_node node);

/// Opens a lane: a stream of calls to the node, which run in their order on a worker of their own.
/// Pass `*lane` in place of a node to make calls in the lane. Without fc_lane_open(), each thread
/// has one lane to each node. If the node has no lane left, waits until a closed lane becomes free;
/// returns FC_TIMEOUT if the deadline of `node` passes before. `*lane` does not get this deadline.
/// Returns FC_ERROR if all lanes are open, so that none can become free.
FC_API fc_status fc_lane_open(fc_node node, fc_node* lane);
/// Closes a lane as soon as its last call has ended. Has no effect for a node without a lane.
FC_API void fc_lane_close(fc_node lane);

// ---- nodes that come and go ---------------------------------------------------------------------

/// Starts one more target, from a URL as in fc_job_options.targets. Blocks until the target has
/// joined, at most for the start timeout. The other nodes go on during that time. A job has at
/// most 65,536 nodes at a time. Node numbers are never reused (fc_latest_node()). Targets of
/// servers can be added only if the job has started with one. Sets
/// `*node`, unless `node` is NULL, to the new node. Only the host may call it. If it returns
/// FC_START_FAILED or FC_SETTING_ERROR, nothing is left of the new target.
FC_API fc_status fc_node_add(fc_job* job, const char* url, fc_node* node);
/// Adds a process of this machine that exists already to the job, like
/// fc_job_options.existing_targets, while the job runs. `socket` is one end of a
/// socketpair(AF_UNIX, SOCK_SEQPACKET, …). The process has the other end, which it passes to
/// fc_serve_socket(), and runs handlers on `workers` threads. The job closes `socket`, even if the
/// function fails. `replaces` is the number of a failed node whose work the process takes over
/// (fc_node_event.replaces), or FC_NO_NODE. Sets `*node`, unless `node` is NULL, to the new node.
/// Blocks until the process has joined, at most for the start timeout; other threads that add nodes
/// wait meanwhile. If the process ends, or closes its end of the socket, the node has failed at
/// once. Only the host may call it. Returns FC_START_FAILED if the process does not join,
/// FC_SETTING_ERROR for a wrong number of workers, and FC_ERROR if the node `replaces` is alive.
FC_API fc_status fc_node_add_socket(fc_job* job, int socket, uint32_t workers, uint32_t replaces,
                                    fc_node* node);
/// Removes a target from the job. Calls that were sent to the target end as usual, and new calls
/// fail with FC_NODE_FAILED. When the calls have ended, the target's process ends. Blocks until
/// then, at most for the stop timeout; afterwards the process is killed. The target's memory is
/// lost. Only the host may call it, and not in a handler of a call that this target has made.
/// Returns FC_ERROR for the host, and for nodes without a process.
FC_API fc_status fc_node_remove(fc_node node);
/// Restarts a target that has failed or was removed. The target is started from its URL as a new
/// node, which has a new number. Sets `*started`, unless `started` is NULL, to this node. Calls,
/// futures and memory of the old node stay failed. Blocks and fails like fc_node_add(). Also
/// returns FC_ERROR for a node that is alive, and for a node that the job has not started.
FC_API fc_status fc_node_restart(fc_node failed, fc_node* started);

/// The way in which a node has changed.
typedef enum fc_node_change {
  FC_CHANGE_JOINED = 1, ///< the node was added, or started again
  FC_CHANGE_FAILED = 2, ///< the node's process has ended, or cannot be reached any more
  FC_CHANGE_REMOVED = 3 ///< fc_node_remove() has removed the node
} fc_node_change;

/// Describes to a callback how a node of the job has changed. It is valid only during the callback.
/// Later versions add members at the end.
typedef struct fc_node_event {
  fc_node node;        ///< the node that has changed
  const char* why;     ///< reason of the node's end; empty if the node has joined
  fc_node_change what; ///< kind of the change
  /// If `node` was started in place of another node, the number of that node; otherwise FC_NO_NODE.
  uint32_t replaces;
} fc_node_event;

/// Callback for changes of nodes. It runs on the same threads as callbacks of futures, mostly on a
/// thread of the library. Only one such callback runs at a time, in the order of the changes. It
/// may make calls, wait, and add nodes.
typedef void (*fc_node_callback)(const fc_node_event* event, void* user);
/// From now on until the job ends, `callback` is called for each change of a node. The end of the
/// job itself is not reported. Only the host may call this function.
FC_API fc_status fc_on_node_change(fc_job* job, fc_node_callback callback, void* user);

// ---- handlers -----------------------------------------------------------------------------------

/// The reply to a call that a handler is running.
typedef struct fc_reply fc_reply;

/// Handler of calls. `bytes` are the bytes that the caller has sent. They are aligned to 16, and
/// valid until the handler replies or returns. `user` is the pointer that was passed to
/// fc_register(). The handler replies once, by fc_reply_bytes() or fc_reply_error(). If it returns
/// without having replied, an empty reply is sent. `reply` is valid until the handler returns. To
/// reply later, call fc_reply_keep() before returning.
///
/// Handlers run on threads of the library. They may call any function of this header except
/// fc_job_end(). While a handler waits in such a function, its thread runs other handlers.
typedef void (*fc_handler)(fc_reply* reply, const void* bytes, size_t size, void* user);

/// Registers the handler `run` on this node under a name, so that all nodes can call it here by
/// this name, in all jobs of this process. May be called at any time, even during a job, in a
/// handler, or in a library that was loaded with dlopen(). A handler must be registered on each
/// node on which it shall run. All targets run the same main(), so that a handler that is
/// registered before fc_job_start() exists on all nodes.
///
/// Returns FC_INVALID_ARGUMENT if the name is empty, if it has a handler already, or if another
/// name in this process has the same 64-bit hash.
FC_API fc_status fc_register(const char* name, fc_handler run, void* user);
/// Unregisters the handler of a name. Calls that have begun go on, so that the code of the handler
/// may be unloaded only after their callers have received the replies. Returns FC_INVALID_ARGUMENT
/// if the name has no handler.
FC_API fc_status fc_unregister(const char* name);

/// Replies with a copy of `bytes`. Returns FC_INVALID_ARGUMENT if the call has a reply already.
FC_API fc_status fc_reply_bytes(fc_reply* reply, const void* bytes, size_t size);
/// Replies that the handler has failed. The caller then gets FC_REMOTE_ERROR, and from
/// fc_error_type() the text `type`; fc_error_text() contains `text`. Both are copied, and truncated
/// if they do not fit into a message. NULL counts as an empty text. Returns FC_INVALID_ARGUMENT if
/// the call has a reply already.
FC_API fc_status fc_reply_error(fc_reply* reply, const char* type, const char* text);
/// Lets the handler return before the reply is given. Sets `*kept` to a new object, which replaces
/// `reply`. Later any thread can reply once by passing `*kept` to fc_reply_bytes() or
/// fc_reply_error(), which also frees it. Until then the call occupies no thread. A target ends
/// only after all such replies were given. Returns FC_INVALID_ARGUMENT if the call has a reply
/// already, or if `reply` itself comes from this function.
FC_API fc_status fc_reply_keep(fc_reply* reply, fc_reply** kept);
/// Returns true if the caller gets the reply. Returns false for a call by fc_post(), whose reply is
/// dropped.
FC_API bool fc_reply_wanted(const fc_reply* reply);
/// Returns the number of the node that made the call.
FC_API uint32_t fc_reply_caller(const fc_reply* reply);
/// Returns true once the caller does not wait for the reply any more. The caller may have stopped
/// the call by fc_future_stop() or a stop token of C++, may have given it up at its deadline, or
/// may have failed. A handler that runs for long should therefore call this function from time to
/// time, and end early. The handler must reply in any case. Returns false for calls that cannot be
/// stopped. Any thread may call it as long as `reply` is valid, even while another thread replies.
FC_API bool fc_reply_stopped(const fc_reply* reply);

// ---- calls --------------------------------------------------------------------------------------

/// Stands for the name of a function in calls, because it is quicker to use than the name. It is a
/// hash of the name, and so the same in all programs. 0 stands for no function.
typedef uint64_t fc_function;

/// Returns the fc_function of a name. The name need not be registered on any node yet. The function
/// computes a hash and looks it up, so keep the result if you call often. Returns 0 and stores an
/// error if the name is empty, or if another name in this process has the same hash.
FC_API fc_function fc_named(const char* name);

/// Calls the function on the node `where`, and waits for the reply. Writes the bytes of the reply
/// to `result`, which has space for `capacity` bytes. Writes the size of the reply to
/// `*result_size`, unless `result_size` is NULL. If the reply is larger than `capacity`, returns
/// FC_INVALID_ARGUMENT. In this case only the first bytes are written, `*result_size` is the whole
/// size, and the rest of the reply is lost.
FC_API fc_status fc_call(fc_node where, fc_function function, const void* bytes, size_t size,
                         void* result, size_t capacity, size_t* result_size);

/// A part of a message: `size` bytes at the address `at`, which may be NULL if `size` is 0. A
/// message of several parts contains their bytes one after the other, without gaps. The library
/// copies them directly to the place from which they are sent.
typedef struct fc_bytes {
  const void* at; ///< address of the bytes
  size_t size;    ///< number of bytes
} fc_bytes;

/// A call or a copy that may not have ended yet. Once the call has ended, its future contains the
/// result.
typedef struct fc_future fc_future;

/// Calls the function on the node `where` with a message of `part_count` parts, and waits for the
/// reply. For FC_OK, sets `*result` to a ready future, which the caller owns. fc_future_get() then
/// returns the reply, of any size, without waiting. `parts` may be NULL if `part_count` is 0.
FC_API fc_status fc_callv(fc_node where, fc_function function, const fc_bytes* parts,
                          size_t part_count, fc_future** result);

/// Calls the function on the node `where` without waiting for the reply. Sets `*future` to a future
/// of the call, which the caller owns. `bytes` may be changed as soon as fc_call_async() has
/// returned. Calls that one thread makes to one node start in their order, and so do calls in one
/// lane.
FC_API fc_status fc_call_async(fc_node where, fc_function function, const void* bytes, size_t size,
                               fc_future** future);

/// Like fc_call_async(), with a message of `part_count` parts. `parts` may be NULL if `part_count`
/// is 0.
FC_API fc_status fc_call_asyncv(fc_node where, fc_function function, const fc_bytes* parts,
                                size_t part_count, fc_future** future);
/// Like fc_call_asyncv(), but never waits. If it would have to wait, returns FC_WOULD_BLOCK, and
/// sends nothing. This is the case if the lane has no space for the message, and in the first call
/// of a thread to a node, if no lane is free, if the nodes are not introduced yet, or if the nodes
/// run different programs. A function that waits makes the first call in any case. A lane gets
/// space again as its node takes messages, which may depend on this process receiving replies
/// (fc_progress, fc_queue_take). A deadline of `where` limits the call as usual.
FC_API fc_status fc_try_call_async(fc_node where, fc_function function, const fc_bytes* parts,
                                   size_t part_count, fc_future** future);

/// Calls the function on the node `where`, without a future and without a result. The caller learns
/// of no error; the target writes errors to its log.
FC_API fc_status fc_post(fc_node where, fc_function function, const void* bytes, size_t size);
/// Like fc_post(), with a message of `part_count` parts. `parts` may be NULL if `part_count` is 0.
FC_API fc_status fc_postv(fc_node where, fc_function function, const fc_bytes* parts,
                          size_t part_count);

/// Returns true if the future is ready, so that fc_future_get() would not wait. Also receives the
/// replies that have arrived. Never blocks. For NULL, returns false and stores an error.
FC_API bool fc_future_test(fc_future* future);
/// Waits until the future is ready, at most for `timeout_ns` nanoseconds. If `timeout_ns` is
/// negative, waits at most until the deadline of the call, if the call has one. Returns FC_TIMEOUT
/// if this time has passed; the future is then unchanged. FC_OK says only that the future is ready,
/// and not that the call has succeeded.
FC_API fc_status fc_future_wait(fc_future* future, int64_t timeout_ns);
/// Waits like fc_future_wait() with a negative timeout, and then returns the status of the call.
/// For FC_OK, sets `*bytes` and `*size` to the result of the call, unless these pointers are NULL.
/// The bytes are aligned to 8. They belong to the future, and are valid until it is dropped. The
/// result of a copy is empty. May be called again.
FC_API fc_status fc_future_get(fc_future* future, const void** bytes, size_t* size);
/// Ends a call that was made to a node from fc_stoppable(). The future becomes ready at once, and
/// fc_future_get() returns FC_CANCELLED, unless the reply has already arrived. The node of the call
/// is told. If the call has not begun on the node, it does not run. If it has begun,
/// fc_reply_stopped() returns true to its handler. On a device, the call runs in any case. Never
/// blocks. Any thread may call this function while another thread waits for the future, but not
/// after the future was dropped or given to fc_future_then(). The future must still be dropped.
/// Returns FC_INVALID_ARGUMENT for a future of a call or copy that cannot be stopped.
FC_API fc_status fc_future_stop(fc_future* future);
/// Destroys a future and its result. Never blocks. If the call has not ended, it goes on, unless
/// its deadline has passed; its result is dropped. Does nothing for NULL.
FC_API void fc_future_drop(fc_future* future);

/// Function that fc_future_then() calls with the ready future. It must drop this future.
typedef void (*fc_continuation)(fc_future* ready, void* user);

/// Passes the future on to `run`, which is called once the future is ready. If the future is ready
/// already, this happens at once, and otherwise on the thread that receives the reply in a wait or
/// test. If the deadline of the call passes before, a thread of the library calls `run` at that
/// time, and fc_future_get() returns FC_TIMEOUT. `run` should be short, and must not wait. If this
/// function fails, the caller keeps the future. It fails with FC_OUT_OF_MEMORY or
/// FC_INVALID_ARGUMENT; also with FC_ERROR, if the call has a deadline and no thread is available
/// for it.
FC_API fc_status fc_future_then(fc_future* future, fc_continuation run, void* user);

/// Waits until all futures are ready, at most for `timeout_ns` nanoseconds. If `timeout_ns` is
/// negative, waits for each future at most until the deadline of its call. Returns FC_TIMEOUT if
/// this time has passed. Elements that are NULL are skipped. Call fc_future_get() for the status of
/// each call.
FC_API fc_status fc_wait_all(fc_future* const* futures, size_t count, int64_t timeout_ns);
/// Waits until at least one future is ready, and sets `*index` to the index of the first ready one.
/// A future whose deadline has passed counts as ready, as in fc_future_test(). Returns FC_TIMEOUT
/// if no future is ready after `timeout_ns` nanoseconds; if `timeout_ns` is negative, waits without
/// a limit. Elements that are NULL are skipped. Returns FC_INVALID_ARGUMENT if all elements are
/// NULL. All futures must belong to one job.
FC_API fc_status fc_wait_any(fc_future* const* futures, size_t count, int64_t timeout_ns,
                             size_t* index);

/// Function of the program that decides if a wait of its thread ends early. It must not call
/// functions that wait.
typedef bool (*fc_interrupt)(void* user);

/// From now on, waits of the calling thread call `is_interrupted(user)`, and end with
/// FC_INTERRUPTED if it returns true. A waiting thread calls it after a signal has ended its sleep,
/// and otherwise at least every 50 ms. These are the waits of functions that call or wait for
/// futures and queues (fc_call to fc_wait_any, fc_queue_take, fc_native_call), of collectives, and
/// of fc_take. The function is not called while such a function does not have to wait, nor in
/// handlers. NULL ends the effect of an earlier call.
///
/// After FC_INTERRUPTED, a future is unchanged, and can be waited for again. If fc_call() or
/// fc_callv() is interrupted, its call is dropped. The call goes on, except that a call with a
/// deadline, or to a node from fc_stoppable(), is stopped as if by fc_future_stop().
FC_API void fc_set_interrupt(fc_interrupt is_interrupted, void* user);

// ---- memory -------------------------------------------------------------------------------------

/// Names a piece of a node's memory by plain numbers, so that it can be sent in the bytes of a
/// call. A span does not own the memory.
typedef struct fc_span {
  uint64_t address;  ///< on its node
  uint64_t bytes;    ///< size
  uint32_t node;     ///< number of the node (its `id`)
  uint32_t reserved; ///< number of the job; 0 if it is unknown
} fc_span;

/// Allocates memory on the node `where`. It is uninitialised, and aligned to 64. The nodes of one
/// machine can access it directly. The caller owns the memory, and must free it with fc_release().
/// Returns FC_TIMEOUT if the deadline of `where` (see fc_within) passes before; the node then frees
/// memory that it has still allocated.
FC_API fc_status fc_allocate(fc_node where, uint64_t bytes, fc_span* memory);
/// Frees memory of fc_allocate(), after the calls that this thread has made to the node before. May
/// have to wait for a lane, or for space in it, but waits only for
/// fc_job_options.release_timeout_ms. If this is too short, writes a line to the log, and the
/// memory stays allocated until the job ends. The end of a job frees all its memory.
FC_API fc_status fc_release(fc_job* job, fc_span memory);
/// Like fc_release(), but waits for at most `timeout_ns` nanoseconds, or without a limit if
/// `timeout_ns` is negative. If this is too short, returns FC_TIMEOUT. In this case the memory
/// still exists, and can be released again.
FC_API fc_status fc_release_within(fc_job* job, fc_span memory, int64_t timeout_ns);

/// Returns a span for memory of this process, so that other nodes can copy to it and from it. The
/// caller must keep the memory valid during that time.
FC_API fc_span fc_own_memory(const void* address, size_t bytes);
/// Sets `*part` to the part of `whole` that begins at `offset` and has `bytes` bytes. Returns
/// FC_ERROR if `whole` does not contain this part.
FC_API fc_status fc_part(fc_span whole, uint64_t offset, uint64_t bytes, fc_span* part);

/// Copies `bytes` bytes from the address `from` in this process to the beginning of `to`. Returns
/// FC_ERROR if `to` is smaller.
FC_API fc_status fc_put(fc_job* job, fc_span to, const void* from, size_t bytes);
/// Copies `bytes` bytes from the beginning of `from` to the address `to` in this process. Returns
/// FC_ERROR if `from` is smaller.
FC_API fc_status fc_get(fc_job* job, fc_span from, void* to, size_t bytes);
/// Copies all of `from` to the beginning of `to`. The bytes go directly from one node to the other,
/// whichever nodes these are. The spans must not overlap. Returns FC_ERROR if `to` is smaller.
FC_API fc_status fc_copy(fc_job* job, fc_span from, fc_span to);

/// Like fc_put(), but a large copy runs in the background after this function has returned. The
/// caller owns the future. Until it is ready, the bytes at `from` must stay valid and unchanged. A
/// small copy has ended when the function returns.
FC_API fc_status fc_put_async(fc_job* job, fc_span to, const void* from, size_t bytes,
                              fc_future** future);
/// Like fc_get(), but a large copy runs in the background, as for fc_put_async(). Until the future
/// is ready, the caller must not use or free the memory at `to`.
FC_API fc_status fc_get_async(fc_job* job, fc_span from, void* to, size_t bytes,
                              fc_future** future);
/// Like fc_copy(), but returns at once, with a future of the copy.
FC_API fc_status fc_copy_async(fc_job* job, fc_span from, fc_span to, fc_future** future);

/// Like fc_put(), with a deadline that is `timeout_ns` nanoseconds from now, or without a deadline
/// if `timeout_ns` is negative. A copy that is late ends with FC_TIMEOUT, and afterwards does not
/// use this process's memory. By then some of the bytes may have been copied; if the node is on
/// another machine, more may follow. A copy to or from a device that has begun is not interrupted,
/// but waited for even after the deadline.
FC_API fc_status fc_put_within(fc_job* job, fc_span to, const void* from, size_t bytes,
                               int64_t timeout_ns);
/// Like fc_get(), with a deadline as in fc_put_within().
FC_API fc_status fc_get_within(fc_job* job, fc_span from, void* to, size_t bytes,
                               int64_t timeout_ns);
/// Like fc_copy(), with a deadline as in fc_put_within().
FC_API fc_status fc_copy_within(fc_job* job, fc_span from, fc_span to, int64_t timeout_ns);
/// Like fc_put_async(), with a deadline as in fc_put_within(). fc_future_get() does not wait for
/// longer than this deadline.
FC_API fc_status fc_put_async_within(fc_job* job, fc_span to, const void* from, size_t bytes,
                                     int64_t timeout_ns, fc_future** future);
/// Like fc_get_async(), with a deadline as in fc_put_async_within().
FC_API fc_status fc_get_async_within(fc_job* job, fc_span from, void* to, size_t bytes,
                                     int64_t timeout_ns, fc_future** future);
/// Like fc_copy_async(), with a deadline as in fc_put_async_within().
FC_API fc_status fc_copy_async_within(fc_job* job, fc_span from, fc_span to, int64_t timeout_ns,
                                      fc_future** future);

/// Sets `*here` to the address at which this process can access the memory `shared`. This must be
/// memory of this node, or memory that was allocated on a node of this machine. Returns FC_ERROR
/// for other memory. The address is valid as long as the memory. Only calls between the two nodes
/// order their accesses to this memory.
FC_API fc_status fc_map(fc_job* job, fc_span shared, void** here);

/// Like fc_map(), but keeps the memory mapped in this process, at the same address, until `*here`
/// was passed to fc_unmap() as often as this function has returned it. Until then, this process can
/// read and write the memory, also after it was released, after its node has failed or was removed,
/// after the end of the job, and in a forked child. The mapping does not keep the memory allocated:
/// once it was released, its node may use it for other allocations, so its content is unspecified.
/// It does keep the pages of all shared memory of the node in use, until fc_unmap(). Also returns
/// FC_ERROR for memory of this process that fc_allocate() has not allocated.
FC_API fc_status fc_map_hold(fc_job* job, fc_span shared, void** here);
/// Ends one mapping that fc_map_hold() has made. Any thread may call it, also after the end of the
/// job, and in a forked child, for which it does not change the mapping of the parent. Returns
/// FC_INVALID_ARGUMENT for an address that is not mapped in this way.
FC_API fc_status fc_unmap(void* here);

#ifdef __cplusplus
}
#endif

#endif
