// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/stack_state.hpp>
#include <farcall/async/map.hpp>
#include <farcall/async/stop_token.hpp>

#include <string>

namespace farcall {

call_stop_token stop_token_of_call() noexcept {
  return call_stop_token(counted_ptr(am::this_stack.stop));
}

} // namespace farcall

namespace farcall::detail {
namespace {

template <class MakeText>
std::exception_ptr cancelled_with(node_id node, const MakeText& make_text) noexcept {
  try {
    return std::make_exception_ptr(cancelled(make_text(), node));
  } catch (...) {
    return std::current_exception();
  }
}

} // namespace

void leave_if_stopped(const am::stop_state& stop) {
  if (stop.stop_requested()) throw cancelled("the rest of this message of map() was stopped");
}

void throw_empty_to_stop() { throw error("stop_when needs a future that is not empty"); }

std::exception_ptr cancelled_wait_for(const am::completion& state) noexcept {
  const am::requester* const lane = state.source();
  const node_id node = lane != nullptr ? lane->peer() : no_node;
  return cancelled_with(node, [&] {
    if (lane == nullptr) return std::string("a stop was requested before a future became ready");
    return "a stop was requested before " + node_text(node) +
           " replied; the call may still run there";
  });
}

std::exception_ptr cancelled_before_call(const node& where) noexcept {
  return cancelled_with(where.id(), [&] {
    return "a stop was requested before a call to " + node_text(where.id()) +
           ", which was not sent";
  });
}

} // namespace farcall::detail
