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
/// fc_barrier(), fc_all_gather(), fc_broadcast(), fc_reduce(), fc_all_reduce(), fc_scan() and
/// fc_job_close() are *collectives*: all nodes must call them in the same order, on the thread that
/// made the job, and not in a handler. While they wait, they serve calls. They return FC_ERROR in
/// other jobs and on other threads, and if the nodes call different collectives. They return
/// FC_NODE_FAILED if a node of the job has failed. A negative `timeout_ns` means no time limit. The
/// function of fc_set_interrupt() can end their waits, except in fc_job_close(). After FC_TIMEOUT
/// and FC_INTERRUPTED no collective of the job can succeed, and the end of the job ends all nodes.

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

/// Types of the values that a reduction combines. Later versions may add types.
typedef enum fc_type {
  FC_OTHER_TYPE = 0, ///< the type of the program's own operation
  FC_INT8 = 1,
  FC_INT16 = 2,
  FC_INT32 = 3,
  FC_INT64 = 4,
  FC_UINT8 = 5,
  FC_UINT16 = 6,
  FC_UINT32 = 7,
  FC_UINT64 = 8,
  FC_FLOAT = 9,
  FC_DOUBLE = 10
} fc_type;

/// Operations of reductions. Later versions may add operations.
typedef enum fc_operation {
  FC_OWN_OPERATION = 0, ///< the program's own operation, fc_reduction.combine
  FC_SUM = 1,
  FC_PRODUCT = 2,
  FC_MINIMUM = 3, ///< of equal values, or if one is not a number: the value of the lower nodes
  FC_MAXIMUM = 4, ///< like FC_MINIMUM
  FC_BIT_AND = 5, ///< for integers, like the next two
  FC_BIT_OR = 6,
  FC_BIT_XOR = 7,
  FC_LOGICAL_AND = 8, ///< the result is 0 or 1
  FC_LOGICAL_OR = 9   ///< the result is 0 or 1
} fc_operation;

/// Combines `count` values of `left`, which come from lower nodes, with as many values of `right`,
/// and stores the results in `result`. `result` is the same memory as `left` or as `right`. The
/// operation must be associative, but need not be commutative. The callback may run on the thread
/// that runs handlers. It must not end the job.
typedef void (*fc_combine)(const void* left, const void* right, void* result, size_t count,
                           void* user);

/// How a reduction combines values. Fill the struct with zeros, set `size`, and then `type` and
/// `operation`, or `combine` and `value_size`. Later versions may add members at the end.
///
///     const fc_reduction sum = {.size = sizeof sum, .type = FC_DOUBLE, .operation = FC_SUM};
typedef struct fc_reduction {
  size_t size; ///< sizeof(fc_reduction)
  fc_type type;
  fc_operation operation;
  fc_combine combine; ///< the program's own operation
  size_t value_size;  ///< size of a value, in bytes, for the program's own operation
  void* user;         ///< argument of `combine`
} fc_reduction;

/// Combines `count` values of each node, value by value, in the order of the node numbers, and
/// stores the results in `result` on all nodes. `mine` and `result` may be the same memory, but
/// must not overlap otherwise. `count` and the reduction must be the same on all nodes. The
/// operands of each operation depend only on the number of nodes, so that results are reproducible,
/// and have the same bits on all nodes. After an error, `result` is undefined.
FC_API fc_status fc_all_reduce(fc_job* job, const void* mine, void* result, size_t count,
                               const fc_reduction* how, int64_t timeout_ns);
/// Does the same as fc_all_reduce(), but stores the results only on the node `root`. On other
/// nodes, `result` is not used, and can be NULL.
FC_API fc_status fc_reduce(fc_job* job, const void* mine, void* result, size_t count,
                           const fc_reduction* how, uint32_t root, int64_t timeout_ns);
/// Does the same as fc_all_reduce(), but each node gets the results of the nodes up to itself.
FC_API fc_status fc_scan(fc_job* job, const void* mine, void* result, size_t count,
                         const fc_reduction* how, int64_t timeout_ns);

/// Does the same as fc_progress(), but faster, for loops that poll again and again. Handlers run on
/// the stack of the caller, so they should not wait: if one does, this function returns only after
/// the wait. May receive replies in only one call in 16, or in one in 1,024 while each call finds
/// requests.
FC_API fc_status fc_progress_in_place(fc_job* job);

#ifdef __cplusplus
}
#endif

#endif
