#pragma once

#include <farcall/base/language.hpp>

#include <thread>

namespace farcall {

/// Waits for the end of `t`, if it has one. Where `t` is the calling thread it is let go instead:
/// exit() in a handler or a continuation destroys static jobs on a thread of theirs, and the
/// process ends before that thread comes back.
inline void join_unless_own(std::thread& t) {
  if (!t.joinable()) return;
  if (t.get_id() == std::this_thread::get_id()) {
    t.detach();
  } else {
    t.join();
  }
}

} // namespace farcall
