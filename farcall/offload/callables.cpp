// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/call/peer_table.hpp>
#include <farcall/offload/callables.hpp>
#include <farcall/offload/job_state.hpp>

namespace farcall {

detail::program_table detail::table_of(const timed_node& of) {
  const call_place place = find_place(of);
  const card& its = state_of(place.job).members->card_of(of.where().id());
  return {its.build, its.key_digest, program_of_peer(place.messages, place.deadline).names};
}

} // namespace farcall
