// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/stack.hpp>
#include <farcall/am/stack_state.hpp>

#include <algorithm>
#include <cstddef>

#include <pthread.h>

namespace farcall::am {
namespace {

/// Stack space, in bytes, that must be free for code that runs on top of a waiting continuation. On
/// a small stack, a quarter of the stack must be free.
constexpr std::size_t stack_reserve = std::size_t{256} << 10;

struct stack_bounds {
  const std::byte* lowest = nullptr;
  const std::byte* limit = nullptr; ///< address below which too little of the stack is left
};

const stack_bounds& bounds_of_thread() noexcept {
  static thread_local const stack_bounds bounds = []() -> stack_bounds {
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return {};
    void* lowest = nullptr;
    std::size_t bytes = 0;
    const bool known = ::pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
    ::pthread_attr_destroy(&attributes);
    if (!known) return {};
    const auto* const first = static_cast<const std::byte*>(lowest);
    return {first, first + std::min(stack_reserve, bytes / 4)};
  }();
  return bounds;
}

} // namespace

constinit thread_local stack_state this_stack{};

bool stack_is_low() noexcept {
  // Use a frame address rather than a variable's, because sanitizers may move variables to another
  // stack.
  const auto* const here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const stack_bounds& own = bounds_of_thread();
  // Returns false on a stack that the program itself has made, because its bounds are unknown.
  return here >= own.lowest && here < own.limit;
}

} // namespace farcall::am
