// SPDX-License-Identifier: Apache-2.0
#ifndef FARCALL_C_IN_ORDER_H
#define FARCALL_C_IN_ORDER_H

/// Copies that are ordered with calls, for C programs. Include this header beside farcall.h.
///
/// By default, copies and calls run in parallel, and a program waits for a copy before it makes a
/// call that depends on it. The functions of this header order copies with the calls of a lane, as
/// in a CUDA stream: a copy begins when the earlier calls of its lane have ended. A later call
/// begins after the copy if fc_settle() was called between them. In all of these functions, `where`
/// is the node of the memory, or a lane to it (fc_lane_open). Without such a lane, the lane of the
/// calling thread is meant. A deadline of `where` has no effect.
///
/// A call has ended once its handler has returned; a handler that replies later (fc_reply_keep), or
/// waits in a call, does not delay the copies.

#include <farcall/farcall.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Copies like fc_put(), after the earlier calls of the lane. If `future` is NULL, waits until the
/// copy has ended. Otherwise sets `*future` to a future of the copy, which the caller owns; until
/// it is ready, the bytes at `from` must stay valid and unchanged. May wait for earlier ordered
/// copies of the same memory, and for space in the lane. Returns FC_INVALID_ARGUMENT if `where` is
/// not the node of `to`.
FC_API fc_status fc_put_in_order(fc_node where, fc_span to, const void* from, size_t bytes,
                                 fc_future** future);
/// Copies like fc_get(), after the earlier calls of the lane. Treats `future` like
/// fc_put_in_order(); until the future is ready, the caller must not use the memory at `to`.
FC_API fc_status fc_get_in_order(fc_node where, fc_span from, void* to, size_t bytes,
                                 fc_future** future);
/// Waits until the ordered copies of the lane have ended, so that later calls of the lane follow
/// them. Returns at once if there are none.
FC_API fc_status fc_settle(fc_node where);
/// Frees memory like fc_release(), after the earlier calls and ordered copies of the lane.
FC_API fc_status fc_release_in_order(fc_node where, fc_span memory);

#ifdef __cplusplus
}
#endif

#endif
