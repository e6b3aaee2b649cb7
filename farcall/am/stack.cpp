#include <farcall/am/stack.hpp>
#include <farcall/am/stack_state.hpp>

#include <algorithm>
#include <cstddef>

#include <pthread.h>

namespace farcall::am {
namespace {

/// What code that is about to be run should have left of the stack, in bytes.
constexpr std::size_t stack_reserve = std::size_t{256} << 10;

struct stack_bounds {
  const std::byte* lowest = nullptr;
  const std::byte* limit = nullptr; ///< lowest, and what should be left above it
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
  // Not the address of a variable: sanitizers may keep those elsewhere.
  const auto* const here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const stack_bounds& own = bounds_of_thread();
  // The program may run this on a stack of its own, of which nothing is known.
  return here >= own.lowest && here < own.limit;
}

} // namespace farcall::am
