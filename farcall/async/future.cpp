// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/dropped_errors.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/async/deadline_resume.hpp>
#include <farcall/async/future.hpp>
#include <farcall/async/node.hpp>

#include <algorithm>

namespace farcall::detail {

namespace {

/// Returns the client whose threads make `c` ready. Returns null if the client is unknown or has
/// ended. The client of a call is not looked up in the list of live clients, because a client that
/// ends completes all its calls.
am::client* live_owner(const am::completion& c) noexcept {
  am::client* const owner = c.owner();
  return c.source() != nullptr || am::live_clients::has(owner) ? owner : nullptr;
}

am::client* client_for(const am::completion& c) {
  am::client* const owner = live_owner(c);
  return owner != nullptr ? owner : only_client();
}

} // namespace

void wait_or_throw(am::completion& c, time_point deadline) {
  if (!wait_until(c, deadline)) throw_timeout(c);
}

void throw_timeout(const am::completion& event) {
  if (am::requester* l = event.source()) {
    throw timeout(node_text(l->peer()) +
                      " did not reply before the deadline; the call may still run there",
                  l->peer());
  }
  throw timeout("a future did not become ready before its deadline");
}

bool wait_until(am::completion& c, time_point deadline) {
  am::client* const who = client_for(c);
  if (who != nullptr) return who->wait(c, deadline);
  return static_cast<am::local_completion&>(c).wait_without_client(deadline);
}

bool wait_for(am::completion& c, time_limit duration, time_point deadline) {
  return wait_until(c, std::min(deadline_after(duration), deadline)) || has_passed(deadline);
}

void poll(am::completion& c) {
  am::client* const who = client_for(c);
  if (who != nullptr) who->poll(c);
}

void release_state(am::completion& state, time_point deadline) noexcept {
  const bool is_late = !state.ready() && has_passed(deadline);
  if (am::requester* const lane = state.source()) {
    auto& call = static_cast<am::pending_call&>(state);
    if (is_late) return lane->stop(call);
    lane->abandon(call);
  } else {
    auto& event = static_cast<am::local_completion&>(state);
    if (is_late) event.give_up();
    event.release();
  }
}

void drop(am::completion& state, time_point deadline) noexcept {
  if (state.ready()) am::note_dropped_error(state.failure());
  release_state(state, deadline);
}

void throw_different_jobs() {
  throw error(
      "futures, or buffers, of different jobs cannot be used together; take the futures one " +
      std::string("by one, and copy by way of the host"));
}

void run_when_ready(am::completion* state, am::continuation* c) {
  if (state == nullptr) {
    am::run_continuation(*c);
  } else {
    state->attach(c);
  }
}

void depend_on(am::local_completion& to, const am::completion* state) {
  am::client* const owner = state == nullptr ? nullptr : live_owner(*state);
  if (owner == nullptr || owner == to.owner()) return;
  if (live_owner(to) != nullptr) throw_different_jobs();
  to.bind(*owner);
}

} // namespace farcall::detail
