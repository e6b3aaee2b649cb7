#include <farcall/offload/future.hpp>

namespace farcall::detail {

void wait_or_throw(am::completion& c, time_point deadline) {
  am::client* e = c.owner();
  if (e == nullptr) {
    throw error("this future waits for a coroutine that waits for nothing of farcall's");
  }
  if (e->wait(c, deadline)) return;
  if (am::requester* l = c.source()) {
    throw timeout(node_text(l->peer()) +
                      " did not answer before the deadline; the call may still run there",
                  l->peer());
  }
  throw timeout("a future did not become ready before its deadline");
}

void throw_different_jobs() {
  throw error(
      "futures, or buffers, of different jobs cannot be used together; take the futures one " +
      std::string("by one, and copy by way of the host"));
}

void run_when_ready(am::completion* state, am::continuation* c) {
  if (state == nullptr) {
    c->run();
  } else {
    state->attach(c);
  }
}

void depend_on(am::local_completion& to, const am::completion* state) {
  am::client* const owner = state == nullptr ? nullptr : state->owner();
  if (owner == nullptr || owner == to.owner()) return;
  if (to.owner() != nullptr) throw_different_jobs();
  to.bind(*owner);
}

} // namespace farcall::detail
