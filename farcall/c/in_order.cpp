// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/future.hpp>
#include <farcall/c/in_order.h>
#include <farcall/c/spans.hpp>
#include <farcall/copy/in_order.hpp>

#include <cstddef>
#include <string>
#include <utility>

using namespace farcall;
using namespace farcall::c;
using detail::transfer_mode;

namespace {

const lane* lane_of(const fc_node& where) { return static_cast<const lane*>(where.lane); }

/// Returns the end of a copy of `bytes` bytes in the memory `span`, which belongs to `where`.
/// Throws invalid_argument if it belongs to another node, and error if it is smaller.
detail::ordered_end end_of(const fc_node& where, const fc_span& span, std::size_t bytes) {
  require_node(where);
  require_inside(bytes, span);
  detail::job_state& job = job_with(where.job, span);
  if (where.id != span.node) {
    throw invalid_argument("this span is of node " + std::to_string(span.node) +
                           ", and is to be used in the order of calls to node " +
                           std::to_string(where.id));
  }
  return {job, lane_of(where), span.node, span.address};
}

transfer_mode mode_for(fc_future* const* future) {
  return future == nullptr ? transfer_mode::sync : transfer_mode::async;
}

/// Stores a future of the copy in `*to`. If `to` is null, waits for the copy instead.
void give(future<void> copy, fc_future** to) {
  if (to == nullptr) {
    copy.get();
  } else {
    *to = new fc_future(std::move(copy));
  }
}

} // namespace

fc_status fc_put_in_order(fc_node where, fc_span to, const void* from, size_t bytes,
                          fc_future** future) {
  return guarded([&] {
    const detail::ordered_end end = end_of(where, to, bytes);
    if (bytes != 0) require(from, "from");
    give(detail::put_in_order(end, static_cast<const std::byte*>(from), bytes, mode_for(future)),
         future);
  });
}

fc_status fc_get_in_order(fc_node where, fc_span from, void* to, size_t bytes, fc_future** future) {
  return guarded([&] {
    const detail::ordered_end end = end_of(where, from, bytes);
    if (bytes != 0) require(to, "to");
    give(detail::get_in_order(end, static_cast<std::byte*>(to), bytes, mode_for(future)), future);
  });
}

fc_status fc_settle(fc_node where) {
  return guarded([&] { (void)place_of(ordered_place(node_of(where), lane_of(where))); });
}

fc_status fc_release_in_order(fc_node where, fc_span memory) {
  return guarded([&] {
    const detail::ordered_end end = end_of(where, memory, 0);
    if (end.address != 0) detail::release_in_order(node_of(where), end.by, end.address);
  });
}
