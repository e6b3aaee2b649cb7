// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_C_EQUALS_H
#define FARCALL_C_EQUALS_H

/// Jobs of equals (SPMD) for C programs: every node runs main(), as in MPI. Include this header
/// beside farcall.h.
///
/// The process that the user starts is node 0, the host. It starts the other nodes with its own
/// command line. fc_this_node() gives the rank of the process, and fc_job_size() the number of
/// nodes. Nodes cannot be added or removed. Unless fc_job_options.progress is "thread", handlers
/// run only on the thread that made the job: while this thread waits in a function of the library,
/// in fc_progress(), and in fc_progress_in_place(). docs/guide/14-jobs-of-equals.md explains such
/// jobs.
///
/// fc_barrier(), fc_all_gather(), fc_broadcast() and fc_job_close() are *collectives*: all nodes
/// must call them in the same order, on the thread that made the job, and not in a handler. While
/// they wait, they serve calls. They return FC_ERROR in other jobs and on other threads, and if the
/// nodes call different collectives. They return FC_NODE_FAILED if a node of the job has failed. A
/// negative `timeout_ns` means no time limit. After FC_TIMEOUT no collective of the job can
/// succeed, and the end of the job ends all nodes.

#include <farcall/farcall.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Makes a job of equals, and returns on all of its nodes. A process can make one such job; call
/// this function early in main(). Treats `argc`, `argv` and `options` like fc_job_start(). Returns
/// FC_SETTING_ERROR for existing_targets, for several workers, and for devices. The caller owns the
/// job, and must end it with fc_job_close() or fc_job_end(). If a node ends before that, all nodes
/// are ended, unless fc_job_options.survive is set. In exit(), the host waits for the other nodes,
/// and exits with the status of a node that has failed.
FC_API fc_status fc_job_start_spmd(int* argc, char** argv, const fc_job_options* options,
                                   fc_job** job);

/// Ends the job, once all nodes have called this function and all calls have ended. Waits without a
/// time limit for the other nodes. Afterwards the processes go on, and the job must not be used any
/// more, as after fc_job_end(). If the function fails, the job still exists. fc_job_end() also ends
/// a job of equals in this way, but ends all nodes if it fails. Ends other jobs like fc_job_end().
/// Returns FC_INVALID_ARGUMENT for a job that was not made by a function of the C interface.
FC_API fc_status fc_job_close(fc_job* job);

/// Waits until all nodes have called this function. Calls that were posted before may still be
/// under way.
FC_API fc_status fc_barrier(fc_job* job, int64_t timeout_ns);
/// Gives every node the bytes of all nodes. Fills `all`, which has space for `size` bytes of each
/// node, in the order of the node numbers. `size` must be the same on all nodes.
FC_API fc_status fc_all_gather(fc_job* job, const void* mine, size_t size, void* all,
                               int64_t timeout_ns);
/// Copies the `size` bytes of the node `root` to `bytes` on all other nodes. `size` must be the
/// same on all nodes. On the root, this function may return before the other nodes have the bytes.
FC_API fc_status fc_broadcast(fc_job* job, void* bytes, size_t size, uint32_t root,
                              int64_t timeout_ns);

/// Does the same as fc_progress(), but faster, for loops that poll again and again. Handlers run on
/// the stack of the caller, so they should not wait: if one does, this function returns only after
/// the wait. May receive replies in only one call in 16, or in one in 1,024 while each call finds
/// requests.
FC_API fc_status fc_progress_in_place(fc_job* job);

#ifdef __cplusplus
}
#endif

#endif
