// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

namespace farcall {
struct call_context;
} // namespace farcall

namespace farcall::am {

class reply_catcher;
class stop_listener;
class stop_state;
struct interrupt_check;
struct lane_turn;

/// Entry for a stop listener whose stop() is running on this stack. If stop() of another listener
/// has caused this call, further down on the same stack, `outer` is the entry of that listener.
/// Otherwise `outer` is null.
struct listener_in_call {
  const stop_listener* listener = nullptr;
  const listener_in_call* outer = nullptr;
};

/// State that belongs to the code on a stack rather than to a thread. It is preserved while the
/// stack's fiber is suspended.
struct stack_state {
  /// Context of the running handler, used by the layers above. Null outside handlers.
  const call_context* context = nullptr;
  /// Stop state of the handler's call; null if the call is not stoppable.
  stop_state* stop = nullptr;
  /// Innermost reply catcher on this stack, or null if there is none.
  reply_catcher* catcher = nullptr;
  /// Stop listeners whose stop() is running further down on this stack.
  const listener_in_call* told = nullptr;
  /// Batch of requests in which a worker runs the handler.
  lane_turn* turn = nullptr;
  /// Check that may end the next wait early; null if waits on this stack do not end early
  /// (interrupt.hpp).
  const interrupt_check* interrupt = nullptr;
  /// True if continuations are running further down on this stack (continuation.hpp).
  bool runs_continuations = false;
};

/// State of the current stack. It is defined in the library, so that all shared objects of a
/// program use one instance.
extern constinit thread_local stack_state this_stack;

} // namespace farcall::am
