#pragma once

namespace farcall::am {

class stop_state;

/// What belongs to the code on a stack rather than to the thread: kept while a fiber is suspended.
struct stack_state {
  /// Of the handler that runs, for the layers above; null outside handlers.
  const void* context = nullptr;
  /// Of the call that the handler runs for, if its caller can stop it.
  stop_state* stop = nullptr;
  /// Continuations are run further down on this stack (continuation.hpp).
  bool runs_continuations = false;
};

/// Defined in the library: one for all parts of a program, whatever they hide.
extern constinit thread_local stack_state this_stack;

} // namespace farcall::am
