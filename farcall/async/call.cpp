// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/base/error.hpp>

namespace farcall {

lane::lane(const node& where) : lane(timed_node(where, no_deadline)) {}

lane::lane(const timed_node& where) : where_(where.where()) {
  if (where_.job() == nullptr) detail::throw_no_node();
  lane_ = &where_.job()->client->open_lane(where_.id(), where.deadline());
}

lane::~lane() {
  if (lane_ != nullptr && where_.has_job()) where_.job()->client->retire(*lane_);
}

void detail::throw_no_node() {
  throw error("a call to a node handle that belongs to no job; take nodes from job.targets()");
}

void detail::throw_no_lane() { throw error("a call in a lane that was moved from"); }

} // namespace farcall
