#ifndef FARCALL_FARCALL_H
#define FARCALL_FARCALL_H

/// farcall for C (C11), and for languages that call C.
///
/// A *job* is a set of processes, the *nodes*: this one, the host, starts the others, the targets,
/// which run the same program. Functions are known by names: a node registers a *handler* under a
/// name, and any node calls it there with bytes, and gets bytes back. Start with fc_job_start(),
/// fc_register() and fc_call().
///
/// What can fail returns an fc_status, FC_OK when it did not; fc_error_text() then says in words
/// what happened. Output parameters are written only when it returns FC_OK, unless said otherwise.
///
/// Any thread may use any function; one fc_future is used by one thread at a time, but for
/// fc_future_stop(), and one fc_reply too, but for fc_reply_stopped(). These block, and
/// in a handler let others run while they do: fc_call, fc_future_wait, fc_future_get, fc_wait_all,
/// fc_wait_any, fc_allocate, fc_put, fc_get, fc_copy, fc_lane_open, and the sending functions while
/// a lane is full. How long, fc_within() bounds where a node is taken, `timeout_ns` elsewhere.
/// fc_job_start blocks until all targets have joined, fc_job_end until they have ended. No function
/// throws; a handler or callback that is written in C++ may.
///
/// Structures are not changed once released; where they may grow, a comment says how.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Stands before each function: programs and libraries that are loaded later share it.
#define FC_API __attribute__((visibility("default")))

#define FC_VERSION_MAJOR 0 ///< of this header
#define FC_VERSION_MINOR 1 ///< of this header
#define FC_VERSION_PATCH 0 ///< of this header

#ifdef __cplusplus
extern "C" {
#endif

/// Version of the library that runs, "0.1.0"; the macros are that of this header.
FC_API const char* fc_version(void);

// ---- errors -------------------------------------------------------------------------------------

/// How an operation ended. Later versions may add numbers.
typedef enum fc_status {
  FC_OK = 0,
  FC_ERROR = 1,             ///< what none of the others names
  FC_REMOTE_ERROR = 2,      ///< the handler failed; fc_error_type() has what it said
  FC_NODE_FAILED = 3,       ///< the node has ended or cannot be reached; it takes no more calls
  FC_TIMEOUT = 4,           ///< a deadline passed; the call may still run, or have run
  FC_OUT_OF_MEMORY = 5,     ///< on the node that fc_error_node() names
  FC_UNKNOWN_FUNCTION = 6,  ///< no handler of that name is registered there
  FC_WRONG_NODE = 7,        ///< memory of one node was used in place on another
  FC_START_FAILED = 8,      ///< a target did not start, or did not join
  FC_SETTING_ERROR = 9,     ///< a setting (command line, environment, options) makes no sense
  FC_MALFORMED = 10,        ///< a peer sent bytes that are no message
  FC_INVALID_ARGUMENT = 11, ///< an argument of the C function makes no sense
  FC_FORKED = 12,           ///< this process is a fork of the one that the job belongs to
  FC_NESTED_TOO_DEEP = 13,  ///< too many handlers wait inside each other there; it was not run
  FC_CANCELLED = 14         ///< fc_future_stop() has ended the call; it may still run
} fc_status;

/// Where an error concerns no node.
#define FC_NO_NODE UINT32_MAX

/// Name of a status, "FC_TIMEOUT"; never NULL.
FC_API const char* fc_status_name(fc_status status);

/// Status of the calling thread's last failure; FC_OK before the first. Calls that succeed leave
/// all four of these as they are.
FC_API fc_status fc_error_status(void);
/// What failed, which node and value it was about, and what to do. Never NULL; valid until the
/// thread's next failure.
FC_API const char* fc_error_text(void);
/// For FC_REMOTE_ERROR: the type that the handler named, "std::out_of_range" or what it gave to
/// fc_reply_error(). Else empty. Never NULL; valid until the thread's next failure.
FC_API const char* fc_error_type(void);
/// The node concerned, or FC_NO_NODE.
FC_API uint32_t fc_error_node(void);

// ---- jobs ---------------------------------------------------------------------------------------

/// A set of nodes that call each other. Functions that take one also take NULL: the job of the
/// handler that runs, else the only job of the process.
typedef struct fc_job fc_job;

/// How a job is made. Fill it with zeros, set `size`, and then what is to differ: what is zero
/// comes from the environment, else from the default. Later versions add members at the end; `size`
/// tells the library which the program knows, so a program need not be compiled again for them.
///
///     fc_job_options options = {.size = sizeof options, .targets = "shm:4"};
typedef struct fc_job_options {
  size_t size;                   ///< sizeof(fc_job_options)
  const char* targets;           ///< URLs, "shm:4", "tcp://host:port"; docs/settings.md has more
  const char* program;           ///< that targets run; else this one
  const char* const* arguments;  ///< of that program, argv[0] included, ended by NULL; else ours
  const char* key;               ///< file with the key that servers and this program share
  const char* certificate;       ///< instead of a key, PEM files
  const char* certificate_key;   ///< as above
  const char* authority;         ///< as above
  const int* existing_targets;   ///< descriptors of processes that exist already; closed by the job
  size_t existing_target_count;  ///< how many there are
  uint64_t heap_bytes;           ///< most memory that a node can share
  uint32_t lane_bytes;           ///< of a lane's ring, a power of two
  uint32_t start_timeout_ms;     ///< for all targets to join
  uint32_t stop_timeout_ms;      ///< for targets to finish; then they are killed
  uint32_t heartbeat_timeout_ms; ///< a server that is silent for longer has failed
  int64_t spin_us;               ///< how long threads that wait spin; -1: they sleep at once
  int64_t yield_after_us;        ///< when such threads begin to yield; -1: at once
  uint32_t peer_timeout_ms;      ///< a target that does not answer for longer is killed
  uint32_t release_timeout_ms;   ///< for fc_release(); then the memory stays taken
  uint32_t restart_lost_servers; ///< not 0: targets of servers that have failed start again
  uint32_t reserved;             ///< 0
} fc_job_options;

/// Makes a job: starts the same program once more for every target. There this function serves
/// calls until the job ends, and then ends the process; so call it early in main(), behind
/// fc_register() and before what only the host shall do.
///
/// Takes the options that begin with --farcall- out of the command line; they, and then the
/// environment, come before `options`. `argc`, `argv` and `options` may be NULL. The caller owns
/// the job, and ends it with fc_job_end().
FC_API fc_status fc_job_start(int* argc, char** argv, const fc_job_options* options, fc_job** job);

/// Lets the targets finish what has arrived, and ends them and the job. Futures of the job stay
/// valid and hold FC_NODE_FAILED, lanes can be closed; nothing else of it may be used. Not in a
/// handler. NULL does nothing.
FC_API void fc_job_end(fc_job* job);

/// In a process that was started as a target, serves until the job ends and then ends the process;
/// elsewhere returns FC_OK at once. For programs that make their job late, and for programs that
/// are only targets: call it early in main(), behind fc_register().
FC_API fc_status fc_serve_if_target(void);
/// The same, but returns when the job has ended; `*served` is true then. For programs whose targets
/// have something to do afterwards.
FC_API fc_status fc_serve_as_target(bool* served);
/// Serves the job of the host that has the other end of `socket` (fc_job_options.existing_targets)
/// until it ends, and closes the socket. In a process that has no job.
FC_API fc_status fc_serve_socket(int socket);

/// The job that NULL stands for; NULL, with an error, when there is none or several.
FC_API fc_job* fc_current_job(void);
/// Number of nodes that the job has had, the host included: one more than the highest number. 0,
/// with an error, when `job` is NULL and there is none.
FC_API uint32_t fc_job_size(fc_job* job);

/// Takes in the answers that have arrived, to calls of all threads, and runs on this thread what
/// fc_future_then() has arranged. For loops that do other things too: nobody need wait then. Blocks
/// only as long as what it runs.
FC_API fc_status fc_progress(fc_job* job);
/// A descriptor for poll(), epoll or an event loop, readable while answers may wait. Whoever finds
/// it so calls fc_progress(), which makes it unreadable until there are more, and then tests its
/// futures. It may be watched by level and by edge, and be readable for nothing. Belongs to the
/// job: do not read, write or close it. The first call starts a thread, which sleeps but for such
/// moments.
FC_API fc_status fc_wait_fd(fc_job* job, int* fd);

// ---- nodes --------------------------------------------------------------------------------------

/// A node of a job, as a place that calls go to: perhaps by a lane of its own (fc_lane_open), with
/// a deadline (fc_within), and in a way that they can be stopped (fc_stoppable). A value; copy it
/// freely within the process. To name a node to another node, send its `id`. Valid as long as its
/// job, and its lane.
typedef struct fc_node {
  fc_job* job;      ///< the job that it belongs to
  void* lane;       ///< NULL: the lane that each thread has to the node by itself
  int64_t deadline; ///< 0: none
  uint32_t id;      ///< the host is 0, targets count from 1
  uint32_t flags;   ///< 0, or what fc_stoppable() has set
} fc_node;

/// Node `id` of a job.
FC_API fc_status fc_node_at(fc_job* job, uint32_t id, fc_node* node);
/// The node that this process is.
FC_API fc_status fc_this_node(fc_job* job, fc_node* node);

/// False once the node has exited, was killed or cannot be reached any more, and for no node.
FC_API bool fc_node_alive(fc_node node);

/// What is known about a node. Made by the library; later versions add members at the end.
typedef struct fc_node_description {
  const char* name;         ///< "host", "node 2", or name= of its URL
  const char* host;         ///< name of the machine
  const char* architecture; ///< "x86_64", …
  const char* transport;    ///< "shm", "tcp", …; "none" if there is no route from here
  const char* route;        ///< why this transport, or why none, in words
  uint64_t pid;             ///< process
  uint32_t id;              ///< its number in the job
  uint32_t cores;           ///< processors that the node may run on
  uint32_t workers;         ///< threads that run handlers
  uint32_t reserved;        ///< 0
} fc_node_description;

/// Describes a node. The caller owns the description, strings included, and releases it with
/// fc_free().
FC_API fc_status fc_node_describe(fc_node node, fc_node_description** description);

/// Releases what the library has given away. NULL does nothing.
FC_API void fc_free(void* memory);

/// The same place with a deadline, `timeout_ns` nanoseconds from now: what is started there later
/// ends with FC_TIMEOUT when it has passed. Less than 0: without one. A call that is not done by
/// then is stopped, as by fc_future_stop(), when fc_call() returns or its future is dropped.
FC_API fc_node fc_within(fc_node node, int64_t timeout_ns);

/// The same place, where fc_future_stop() can end the calls of fc_call_async(). These cost more: an
/// entry in a table of the node, while they run, and memory here.
FC_API fc_node fc_stoppable(fc_node node);

/// Opens a lane: an ordered stream of calls to the node, with a worker of its own there. Use
/// `*lane` wherever a node is taken. Without one, each thread has a lane to each node by itself.
/// Where the node has no lane left, waits for one that was closed; FC_TIMEOUT at the deadline of
/// `node`, which `*lane` does not have. FC_ERROR when all are open.
FC_API fc_status fc_lane_open(fc_node node, fc_node* lane);
/// Closes it, after its last call has ended. Does nothing with a node that is no lane.
FC_API void fc_lane_close(fc_node lane);

// ---- nodes that come and go ---------------------------------------------------------------------

/// Starts one more target, from a URL as in fc_job_options.targets; blocks until it has joined, at
/// most for the start timeout. The others go on meanwhile. A number is given to one node only.
/// Servers can be added to jobs that have started with one. `*node`, which may be NULL, is the new
/// one. On the host. FC_START_FAILED and FC_SETTING_ERROR: nothing is left of it then.
FC_API fc_status fc_node_add(fc_job* job, const char* url, fc_node* node);
/// Takes a target out of the job: calls that were sent to it end as usual, and new ones fail with
/// FC_NODE_FAILED. Then its process ends. Blocks until it has, at most for the stop timeout, after
/// which it is killed. Its memory goes with it. On the host; not in a handler of that target's
/// calls. FC_ERROR for the host, and for nodes without a process.
FC_API fc_status fc_node_remove(fc_node node);
/// Starts a target again that has failed or was removed, from its URL: `*started`, which may be
/// NULL, is a new node with a number of its own. What was of the old one stays failed. Blocks and
/// fails as fc_node_add(); FC_ERROR for a node that is alive, or that the job has not started.
FC_API fc_status fc_node_restart(fc_node failed, fc_node* started);

/// What has become of a node.
typedef enum fc_node_change {
  FC_CHANGE_JOINED = 1, ///< it was added, or started again
  FC_CHANGE_FAILED = 2, ///< its process has ended, or cannot be reached
  FC_CHANGE_REMOVED = 3 ///< fc_node_remove() has taken it out
} fc_node_change;

/// A change of which nodes a job has, made by the library and valid during the call that it is
/// given to; later versions add members at the end.
typedef struct fc_node_event {
  fc_node node;        ///< which
  const char* why;     ///< how it has ended; empty for one that has joined
  fc_node_change what; ///< and what
  uint32_t replaces;   ///< the node that this one was started again for, or FC_NO_NODE
} fc_node_event;

/// Told of a change, where callbacks of futures run, mostly on a thread of the library's, one at a
/// time and in the order of the changes. It may call, wait, and add nodes.
typedef void (*fc_node_callback)(const fc_node_event* event, void* user);
/// Has `callback` told of all changes from now until the job ends, which is none. On the host.
FC_API fc_status fc_on_node_change(fc_job* job, fc_node_callback callback, void* user);

// ---- handlers -----------------------------------------------------------------------------------

/// The answer to a call that a handler runs.
typedef struct fc_reply fc_reply;

/// Runs a call. `bytes`, aligned to 16, are the caller's, valid until it answers or returns; `user`
/// is what it was registered with. It answers once, with fc_reply_bytes() or fc_reply_error(); when
/// it returns without, the answer has no bytes. `reply` is valid until it returns; fc_reply_keep()
/// lets it answer later.
///
/// Handlers run on threads of the library's. They may call any function of farcall but fc_job_end;
/// while one waits in such a function, its thread runs others.
typedef void (*fc_handler)(fc_reply* reply, const void* bytes, size_t size, void* user);

/// Lets all nodes call `run` on this one by that name, in all jobs of this process. May be called
/// at any time: before there is a job and while it runs, in a handler, or in a library that was
/// loaded with dlopen(). Each node registers for itself; targets run the same main(), so what is
/// registered before fc_job_start() is there everywhere.
///
/// FC_INVALID_ARGUMENT for a name that is registered already, for an empty one, and for one whose
/// 64-bit hash another name of this process has.
FC_API fc_status fc_register(const char* name, fc_handler run, void* user);
/// Takes a handler back. Calls that have begun go on; whoever unloads the handler's code waits for
/// their answers first. FC_INVALID_ARGUMENT when the name is not registered.
FC_API fc_status fc_unregister(const char* name);

/// Answers with a copy of `bytes`. FC_INVALID_ARGUMENT when the call is answered already.
FC_API fc_status fc_reply_bytes(fc_reply* reply, const void* bytes, size_t size);
/// Answers that the handler failed: the caller gets FC_REMOTE_ERROR, this type in fc_error_type(),
/// and the text in fc_error_text(). Both are copied, and cut to what fits a message; NULL counts as
/// empty. FC_INVALID_ARGUMENT when the call is answered already.
FC_API fc_status fc_reply_error(fc_reply* reply, const char* type, const char* text);
/// Lets the handler return without an answer: `*kept` stands for it, until one of the two functions
/// above gives it from any thread, once, and so ends `*kept`. Meanwhile the call takes no thread. A
/// target ends only when all are given. FC_INVALID_ARGUMENT when the call is answered already, or
/// `reply` is a kept one.
FC_API fc_status fc_reply_keep(fc_reply* reply, fc_reply** kept);
/// False for a call by fc_post(): its answer is dropped.
FC_API bool fc_reply_wanted(const fc_reply* reply);
/// The node that called.
FC_API uint32_t fc_reply_caller(const fc_reply* reply);
/// True once the caller has stopped the call (fc_future_stop(), or a stop token of C++), has given
/// it up at its deadline, or has failed: nobody reads the answer, so a handler that takes long
/// should look now and then. It answers all the same. False for calls that cannot be stopped. Any
/// thread may ask, also while another answers, as long as `reply` is valid.
FC_API bool fc_reply_stopped(const fc_reply* reply);

// ---- calls --------------------------------------------------------------------------------------

/// A name in a form that is quick to call: its hash, the same in all programs. 0 is none.
typedef uint64_t fc_function;

/// The function of that name; it need not be registered anywhere yet. Costs a hash and a look-up;
/// keep it where that matters. 0, with an error, for what fc_register() would refuse as a name.
FC_API fc_function fc_named(const char* name);

/// Calls and waits. At most `capacity` bytes of the answer are written to `result`, and its size to
/// `*result_size`, which may be NULL. FC_INVALID_ARGUMENT when `capacity` was too small: then
/// `*result_size` says what the answer needs, and the answer is lost.
FC_API fc_status fc_call(fc_node where, fc_function function, const void* bytes, size_t size,
                         void* result, size_t capacity, size_t* result_size);

/// The result of a call, or the end of a copy, that may not be there yet.
typedef struct fc_future fc_future;

/// Calls, and returns at once with a future, which the caller owns. `bytes` are copied or sent
/// before it returns. Calls of one thread to one node start in order, those of a lane too.
FC_API fc_status fc_call_async(fc_node where, fc_function function, const void* bytes, size_t size,
                               fc_future** future);

/// Calls and forgets: no result, and errors are logged on the target only.
FC_API fc_status fc_post(fc_node where, fc_function function, const void* bytes, size_t size);

/// True when fc_future_get() would not wait. Takes in answers that have arrived; never blocks.
/// False, with an error, for NULL.
FC_API bool fc_future_test(fc_future* future);
/// Waits until fc_future_test() is true, at most for `timeout_ns` nanoseconds; less than 0: until
/// the deadline of the call, if it has one. FC_TIMEOUT when that passed; the future stays as it is.
/// FC_OK says nothing about how the call ended.
FC_API fc_status fc_future_wait(fc_future* future, int64_t timeout_ns);
/// Waits as fc_future_wait() with -1, and returns how the call ended. With FC_OK, `*bytes` and
/// `*size`, which may be NULL, are its result: the future's own, aligned to 8, valid until it is
/// dropped. May be asked again. A copy has no bytes.
FC_API fc_status fc_future_get(fc_future* future, const void** bytes, size_t* size);
/// Ends a call that was started by fc_stoppable(): from now on the future is ready and
/// fc_future_get() returns FC_CANCELLED, unless the answer was there before. The node is told: a
/// call that has not begun there is not run, and one that has finds fc_reply_stopped() true; on a
/// device it runs in any case. Never blocks. Any thread may do so while another waits for the
/// future, which still has to be dropped; nobody, once it was dropped or given away.
/// FC_INVALID_ARGUMENT for the future of anything else: that can only be dropped.
FC_API fc_status fc_future_stop(fc_future* future);
/// Ends a future and its result. Never blocks; a call that is not done goes on, unless its deadline
/// has passed, and its result is dropped. NULL does nothing.
FC_API void fc_future_drop(fc_future* future);

/// What is to happen when a future is ready; it gets the future, and drops it.
typedef void (*fc_continuation)(fc_future* ready, void* user);

/// Gives the future away: `run` is called with it once it is ready, on whichever thread takes the
/// answer in (one that waits or tests), or at once. If the deadline of the call passes before,
/// `run` is called then, on one of the library's threads, and fc_future_get() returns FC_TIMEOUT.
/// `run` should be short and must not wait. After a failure the future is still the caller's:
/// FC_OUT_OF_MEMORY, FC_INVALID_ARGUMENT, and FC_ERROR if no thread can be had for a deadline.
FC_API fc_status fc_future_then(fc_future* future, fc_continuation run, void* user);

/// Waits until all are ready, at most for `timeout_ns` nanoseconds; less than 0: until the
/// deadlines of the calls. FC_TIMEOUT when that passed. Elements that are NULL are left out. How
/// each ended, fc_future_get() says.
FC_API fc_status fc_wait_all(fc_future* const* futures, size_t count, int64_t timeout_ns);
/// Waits until one is ready, and sets `*index` to the first that is. A future whose deadline has
/// passed counts as ready, as for fc_future_test(). FC_TIMEOUT after `timeout_ns`; less than 0:
/// never. Elements that are NULL are left out; FC_INVALID_ARGUMENT if all are. All futures must
/// belong to one job.
FC_API fc_status fc_wait_any(fc_future* const* futures, size_t count, int64_t timeout_ns,
                             size_t* index);

// ---- memory -------------------------------------------------------------------------------------

/// Memory of a node, as plain numbers: send it among the bytes of a call. Does not own.
typedef struct fc_span {
  uint64_t address;  ///< on its node
  uint64_t bytes;    ///< how many there are
  uint32_t node;     ///< the `id` of the node
  uint32_t reserved; ///< 0 if the job is not known, else its number
} fc_span;

/// Memory on the node, uninitialised, aligned to 64. Nodes of one machine share it. The caller owns
/// it, and gives it to fc_release(). FC_TIMEOUT as calls (fc_within): what comes later is freed.
FC_API fc_status fc_allocate(fc_node where, uint64_t bytes, fc_span* memory);
/// Frees what fc_allocate() gave, in order behind this thread's earlier calls to the node. Waits
/// for a lane and for space in it, but not for long: then a line is logged, and the memory stays
/// taken until the job ends. Memory of a job that has ended is gone already.
FC_API fc_status fc_release(fc_job* job, fc_span memory);
/// The same, but waits until `timeout_ns` nanoseconds from now, less than 0: as long as it takes.
/// FC_TIMEOUT when that was too short: the memory is still there, and can be released again.
FC_API fc_status fc_release_within(fc_job* job, fc_span memory, int64_t timeout_ns);

/// Memory of this process, for other nodes to put to and get from. The caller keeps it there.
FC_API fc_span fc_own_memory(const void* address, size_t bytes);
/// A part of a span. FC_ERROR when it does not lie inside.
FC_API fc_status fc_part(fc_span whole, uint64_t offset, uint64_t bytes, fc_span* part);

/// Copies `bytes` bytes from here to the beginning of `to`. FC_ERROR when `to` has fewer.
FC_API fc_status fc_put(fc_job* job, fc_span to, const void* from, size_t bytes);
/// Copies `bytes` bytes from the beginning of `from` to here. FC_ERROR when `from` has fewer.
FC_API fc_status fc_get(fc_job* job, fc_span from, void* to, size_t bytes);
/// Copies all of `from` to the beginning of `to`, between any two nodes, directly. They must not
/// overlap. FC_ERROR when `to` has fewer bytes.
FC_API fc_status fc_copy(fc_job* job, fc_span from, fc_span to);

/// As fc_put(), but large copies run beside the caller, who leaves `from` alone until the future,
/// which the caller owns, is ready. Small ones are done on return.
FC_API fc_status fc_put_async(fc_job* job, fc_span to, const void* from, size_t bytes,
                              fc_future** future);
/// As fc_get(), and as fc_put_async().
FC_API fc_status fc_get_async(fc_job* job, fc_span from, void* to, size_t bytes,
                              fc_future** future);
/// As fc_copy(), and returns at once.
FC_API fc_status fc_copy_async(fc_job* job, fc_span from, fc_span to, fc_future** future);

/// These are the same with a deadline, `timeout_ns` nanoseconds from now; less than 0: without one.
/// A copy that is not done by then ends with FC_TIMEOUT, and does not use the memory here any more.
/// A part of the bytes may have been copied, and more may follow where the node is on another
/// machine; one to or from a device, once begun, is waited for.
FC_API fc_status fc_put_within(fc_job* job, fc_span to, const void* from, size_t bytes,
                               int64_t timeout_ns);
/// As fc_get(), with a deadline as fc_put_within().
FC_API fc_status fc_get_within(fc_job* job, fc_span from, void* to, size_t bytes,
                               int64_t timeout_ns);
/// As fc_copy(), with a deadline as fc_put_within().
FC_API fc_status fc_copy_within(fc_job* job, fc_span from, fc_span to, int64_t timeout_ns);
/// As fc_put_async(), with a deadline as fc_put_within(): fc_future_get() waits no longer.
FC_API fc_status fc_put_async_within(fc_job* job, fc_span to, const void* from, size_t bytes,
                                     int64_t timeout_ns, fc_future** future);
/// As fc_get_async(), and as fc_put_async_within().
FC_API fc_status fc_get_async_within(fc_job* job, fc_span from, void* to, size_t bytes,
                                     int64_t timeout_ns, fc_future** future);
/// As fc_copy_async(), and as fc_put_async_within().
FC_API fc_status fc_copy_async_within(fc_job* job, fc_span from, fc_span to, int64_t timeout_ns,
                                      fc_future** future);

/// The memory of `shared` as an address here: of this node, or allocated on a node of this machine.
/// FC_ERROR for other memory. Valid as long as the memory is. Nobody orders the accesses of the two
/// sides but the calls between them.
FC_API fc_status fc_map(fc_job* job, fc_span shared, void** here);

#ifdef __cplusplus
}
#endif

#endif
