#pragma once

#include <farcall/am/stack_state.hpp>

namespace farcall {

class key_resolver;

/// What a handler is given besides the request: the job that it runs in. Outlives the engine.
struct call_context {
  key_resolver* functions = nullptr;
  void* job = nullptr; ///< for the layer below
};

/// The context of the handler that the calling thread runs, or null outside handlers.
[[nodiscard]] inline const call_context* current_context() noexcept {
  return static_cast<const call_context*>(am::this_stack.context);
}

namespace detail {
/// Sets current_context() for the time of a handler.
class context_scope {
 public:
  explicit context_scope(const call_context* c) noexcept : before_(am::this_stack.context) {
    am::this_stack.context = c;
  }
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;
  ~context_scope() { am::this_stack.context = before_; }

 private:
  const void* before_;
};
} // namespace detail

} // namespace farcall
