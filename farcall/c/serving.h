// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_C_SERVING_H
#define FARCALL_C_SERVING_H

#include <farcall/farcall.h>

/// Calls that threads of the program take and serve themselves, in place of handlers that run on
/// threads of the library. Meant for interpreters, and for libraries that must be called on certain
/// threads: a handler that waits runs on a stack of its own, and shares its thread with others,
/// which interpreters do not support. A thread of the program is free to wait.
///
///     fc_register_taken("work", NULL);
///     fc_job* job = NULL;
///     fc_serve_open(socket, &job);
///     for (fc_taken call; fc_take(-1, &call) == FC_OK;)
///       fc_reply_bytes(call.reply, call.bytes, call.size);
///     fc_serve_close(job);

#ifdef __cplusplus
extern "C" {
#endif

/// Registers a name without a handler: fc_take() returns the calls of this name, in the order in
/// which they arrive from each lane. `user` is returned with each call. Calls that arrive before
/// the program takes them wait in memory. Fails like fc_register(); fc_unregister() ends it.
FC_API fc_status fc_register_taken(const char* name, void* user);

/// Makes this process a target, like fc_serve_socket(), but returns as soon as the process has
/// joined, with a job for fc_serve_close(). From then on, the process serves requests while one of
/// its threads is in fc_take(). While none is, a thread of the library serves them, and keeps the
/// calls that fc_take() returns. If `socket` is -1, the process must have been
/// started as a target, as for fc_serve_if_target(); otherwise `*job` is set to NULL. Returns
/// FC_ERROR in a process that has a job.
FC_API fc_status fc_serve_open(int socket, fc_job** job);
/// Leaves the job of fc_serve_open(). Call it after fc_take() has returned FC_ENDED. If the job has
/// not ended, its host notices the end of this node as a failure. Calls that were not taken get an
/// error. Blocks until handlers that run have returned. All other threads must have ended their use
/// of the job. Returns FC_INVALID_ARGUMENT for another job.
FC_API fc_status fc_serve_close(fc_job* job);

/// A call that fc_take() returns. Later versions add no members.
typedef struct fc_taken {
  fc_reply* reply;      ///< give one reply by fc_reply_bytes() or fc_reply_error(), on any thread
  const void* bytes;    ///< bytes that the caller has sent, aligned to 16; valid until the reply
  size_t size;          ///< number of these bytes
  fc_function function; ///< function that was called
  void* user;           ///< pointer that was passed to fc_register_taken()
  fc_job* job;          ///< job of the caller
} fc_taken;

/// Takes the next call of a name that was registered by fc_register_taken(). Waits for at most
/// `timeout_ns` nanoseconds, or without a limit if `timeout_ns` is negative; with 0, only polls. In
/// a process of fc_serve_open(), also serves all other requests in the meantime. Returns FC_TIMEOUT
/// if no call has come, FC_INTERRUPTED like other waits (fc_set_interrupt), and FC_ENDED once the
/// job of fc_serve_open() has ended and all calls have their replies. Any number of threads may
/// call it, but no handler and no continuation.
FC_API fc_status fc_take(int64_t timeout_ns, fc_taken* call);

/// Returns memory for the bytes of a reply in `*bytes`, so that a large reply need not be copied.
/// The memory has `size` bytes, is aligned to 16, and is valid until the reply is given. Call it at
/// most once for each reply. fc_reply_reserved() sends it; a reply by another function drops it.
/// Returns FC_OUT_OF_MEMORY if this node has not enough memory.
FC_API fc_status fc_reply_reserve(fc_reply* reply, size_t size, void** bytes);
/// Replies with the first `size` bytes of the memory that fc_reply_reserve() has returned. Returns
/// FC_INVALID_ARGUMENT if no memory was reserved, or fewer than `size` bytes.
FC_API fc_status fc_reply_reserved(fc_reply* reply, size_t size);

/// Calls `run(user)` once the caller has stopped the call; see fc_reply_stopped(). If the call is
/// stopped already, `run` is called at once, and otherwise on a thread of the library. `run` must
/// neither wait nor call this library, and must not take a lock that a thread holds while it
/// replies, because the reply waits until `run` has returned. After the reply, `run` is not called
/// any more. Does nothing for calls that cannot be stopped. Call it at most once for each reply.
FC_API fc_status fc_reply_on_stop(fc_reply* reply, void (*run)(void* user), void* user);

#ifdef __cplusplus
}
#endif

#endif
