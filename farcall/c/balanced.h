// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_C_BALANCED_H
#define FARCALL_C_BALANCED_H

/// Calls for many elements on several nodes, for C programs. Include this header beside farcall.h.

#include <farcall/farcall.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Calls `function` for `count` elements of `element_size` bytes each, on any of the nodes, and
/// waits for all results, like fc::map() in C++. A message has several elements, in at most 2 KiB,
/// or one larger element. The handler gets their bytes, and replies with `result_size` bytes for
/// each of them, in their order. A node gets more elements when it has run the ones before, so that
/// a fast node runs more of them than a slow one. Messages have fewer elements towards the end.
/// Stores the results at `results`, in the order of the elements. If `result_size` is 0, handlers
/// reply without bytes, and `results` may be NULL.
///
/// `nodes` may contain lanes, and nodes with deadlines. After the first failure, no further
/// elements are sent, calls that are under way are stopped if fc_stoppable() has marked their node,
/// and some results may have been stored. Returns the status of that failure, FC_ERROR for a reply
/// of another size, and FC_INVALID_ARGUMENT if there are no nodes, or nodes of different jobs.
FC_API fc_status fc_call_balanced(const fc_node* nodes, size_t node_count, fc_function function,
                                  const void* elements, size_t count, size_t element_size,
                                  void* results, size_t result_size);

#ifdef __cplusplus
}
#endif

#endif
