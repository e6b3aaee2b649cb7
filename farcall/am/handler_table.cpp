// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/handler_table.hpp>
#include <farcall/am/stopping.hpp>

#include <cstdint>
#include <cstring>

namespace farcall::am {
namespace {

void release_reply(request_context& request) noexcept {
  std::uint64_t address = 0;
  if (request.bytes() != sizeof address) return;
  std::memcpy(&address, request.arguments(), sizeof address);
  request.release_rendezvous_reply(address);
}

void name_lane(request_context& request) noexcept { request.name_lane(request.extra()); }

void reply_to_fence(request_context& /*request*/) noexcept {}

} // namespace

handler_table::handler_table(std::span<const handler_function> of_user, bool traces)
    : handlers_(first_user_key) {
  handlers_[release_reply_key] = &release_reply;
  handlers_[fence_key] = &reply_to_fence;
  handlers_[stop_call_key] = &stopping::take;
  handlers_[name_lane_key] = &name_lane;
  handlers_.insert(handlers_.end(), of_user.begin(), of_user.end());
  if (traces) trace_user_handlers();
}

void handler_table::trace_user_handlers() {
  traced_ = handlers_;
  for (handler_key key = first_user_key; key < handlers_.size(); ++key) {
    if (handlers_[key] != nullptr) handlers_[key] = &responder::run_traced;
  }
}

} // namespace farcall::am
