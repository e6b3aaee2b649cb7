#pragma once

#include <farcall/base/language.hpp>

namespace farcall::am {

class reply_catcher;
class stop_listener;
class stop_state;
struct lane_turn;

/// A listener that is being told of a stop, and the one inside whose stop() that happens.
struct listener_in_call {
  const stop_listener* listener = nullptr;
  const listener_in_call* outer = nullptr;
};

/// What belongs to the code on a stack rather than to the thread: kept while a fiber is suspended.
struct stack_state {
  /// Of the handler that runs, for the layers above; null outside handlers.
  const void* context = nullptr;
  /// Of the call that the handler runs for, if its caller can stop it.
  stop_state* stop = nullptr;
  /// Of the innermost handler that has its reply.
  reply_catcher* catcher = nullptr;
  /// Those that are told of stops further down on this stack.
  const listener_in_call* told = nullptr;
  /// In which a worker runs the handler.
  lane_turn* turn = nullptr;
  /// Continuations are run further down on this stack (continuation.hpp).
  bool runs_continuations = false;
};

/// Defined in the library: one for all parts of a program, whatever they hide.
extern constinit thread_local stack_state this_stack;

} // namespace farcall::am
