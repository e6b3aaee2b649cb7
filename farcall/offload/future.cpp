#include <farcall/offload/future.hpp>

namespace farcall::detail {

void wait_or_throw(am::completion& c, time_point deadline) {
  am::engine* e = c.owner();
  if (e == nullptr) {
    throw error("this future waits for a coroutine that waits for nothing of farcall's");
  }
  if (e->wait(c, deadline)) return;
  if (am::lane* l = c.source()) {
    throw timeout(node_text(l->peer()) +
                      " did not answer before the deadline; the call may still " + "run there",
                  l->peer());
  }
  throw timeout("a future did not become ready before its deadline");
}

} // namespace farcall::detail
