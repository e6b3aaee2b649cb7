// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_C_QUEUE_H
#define FARCALL_C_QUEUE_H

/// Completion queues of the interface for C: a program starts many calls and copies, and takes them
/// from a queue in the order in which they end. Taking one costs the same time however many are
/// under way, and no code of the program runs on threads of the library.
///
/// Any thread may use a queue while other threads use it. Functions of this header return statuses
/// like the functions of farcall.h. fc_queue_take() waits, and fc_call_async_to() waits while the
/// lane is full; the others never block.

#include <farcall/farcall.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A queue of calls and copies that have ended.
typedef struct fc_queue fc_queue;

/// An element of a queue.
typedef struct fc_completion {
  uint64_t tag; ///< number that the program has chosen
  /// Future of the call or copy, which belongs to the thread that has taken it. It is ready, so
  /// that fc_future_get() does not wait. NULL for an element of fc_queue_signal().
  fc_future* future;
} fc_completion;

/// Opens a queue for calls and copies of the job. The caller owns the queue, and must close it by
/// fc_queue_close().
FC_API fc_status fc_queue_open(fc_job* job, fc_queue** queue);
/// Closes a queue and drops the futures in it. Calls and copies that have not ended go on, and
/// their futures are dropped when they end. Never blocks. The queue must not be used any more. A
/// queue may also be closed after the end of its job, and in a forked child. Does nothing for NULL.
FC_API void fc_queue_close(fc_queue* queue);

/// Calls the function on the node `where` with a message of `part_count` parts (see fc_bytes). Once
/// the call has ended, the queue contains its future, with the tag `tag`. If this function fails,
/// the queue does not get the call. A call that the program may want to stop is made by
/// fc_call_asyncv() and added by fc_queue_add(), because this function returns no future.
FC_API fc_status fc_call_async_to(fc_node where, fc_function function, const fc_bytes* parts,
                                  size_t part_count, fc_queue* queue, uint64_t tag);
/// Passes a future on to the queue, which contains it with the tag `tag` from the time at which it
/// is ready. If it is ready already, this is at once. If the deadline of the call passes before,
/// the queue contains the future at that time, and fc_future_get() returns FC_TIMEOUT. After this
/// function, only fc_future_stop() may be called for the future, until it is taken. A call that is
/// stopped ends at once with FC_CANCELLED, and is taken from the queue like others. The pointer
/// stays valid until the thread that takes the future drops it. If this function fails, the caller
/// keeps the future. Returns FC_INVALID_ARGUMENT if the future belongs to another job than the
/// queue.
FC_API fc_status fc_queue_add(fc_queue* queue, fc_future* future, uint64_t tag);
/// Puts an element without a future into the queue, with the tag `tag`. It wakes a thread that
/// waits in fc_queue_take(), and tells it, for instance, to end. Never blocks.
FC_API fc_status fc_queue_signal(fc_queue* queue, uint64_t tag);

/// Takes at least one element from the queue, and at most `capacity` elements. Stores them in
/// `taken`, and their number in `*count`. Receives replies like fc_progress() if the queue has
/// fewer than `capacity` elements. Waits while the queue is empty, at most for `timeout_ns`
/// nanoseconds, or without a limit if `timeout_ns` is negative. Returns FC_TIMEOUT if the queue is
/// still empty then. Several threads may take from one queue; each element goes to one of them.
///
/// When the job ends, all its calls and copies in queues end, with FC_NODE_FAILED if they were not
/// ready. They can still be taken. Afterwards this function returns FC_ERROR. All threads must have
/// left this function before the job ends.
FC_API fc_status fc_queue_take(fc_queue* queue, fc_completion* taken, size_t capacity,
                               int64_t timeout_ns, size_t* count);

/// Sets `*fd` to a file descriptor for poll(), epoll or an event loop, which is readable while
/// fc_queue_take() may find elements. If it is readable, call fc_queue_take() with a timeout of 0
/// until it stores fewer elements than `capacity`, or returns FC_TIMEOUT. Both level and edge
/// triggering work in this way. The descriptor may also be readable without an element. Each queue
/// has a descriptor of its own, so that each of several event loops can use one. The queue owns the
/// descriptor, so do not read, write or close it. The first call for a job starts a thread, like
/// fc_wait_fd().
FC_API fc_status fc_queue_fd(fc_queue* queue, int* fd);

#ifdef __cplusplus
}
#endif

#endif
