// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/stack_state.hpp>

namespace farcall {

class key_resolver;

namespace detail {
struct job_core;
class message_table;
} // namespace detail

/// Data of the job to which an engine's handlers and calls belong. The context outlives the engine,
/// which passes it to handlers and to the functions that read replies.
struct call_context {
  key_resolver* functions = nullptr;
  detail::job_core* job = nullptr; ///< for the layer above
  /// Handlers of raw messages; null if the job accepts none.
  detail::message_table* messages = nullptr;
};

/// Returns the context of the handler that the calling thread is running, or null outside handlers.
[[nodiscard]] inline const call_context* current_context() noexcept {
  return am::this_stack.context;
}

namespace detail {
/// Sets current_context() as long as the object exists.
class context_scope {
 public:
  explicit context_scope(const call_context* c) noexcept : before_(am::this_stack.context) {
    am::this_stack.context = c;
  }
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;
  ~context_scope() { am::this_stack.context = before_; }

 private:
  const call_context* before_;
};
} // namespace detail

} // namespace farcall
