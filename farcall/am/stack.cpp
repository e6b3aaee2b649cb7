#include <farcall/am/stack.hpp>

#include <algorithm>
#include <cstddef>

#include <pthread.h>

namespace farcall::am {
namespace {

/// Handlers are not nested deeper when less than this is left of the stack, in bytes.
constexpr std::size_t stack_reserve = std::size_t{256} << 10;

/// Lowest address that the calling thread's stack may grow to, less what handlers need.
const std::byte* stack_limit() noexcept {
  static thread_local const std::byte* const limit = []() -> const std::byte* {
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return nullptr;
    void* lowest = nullptr;
    std::size_t bytes = 0;
    const bool known = ::pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
    ::pthread_attr_destroy(&attributes);
    if (!known) return nullptr;
    return static_cast<const std::byte*>(lowest) + std::min(stack_reserve, bytes / 4);
  }();
  return limit;
}

} // namespace

bool stack_is_low() noexcept {
  // Not the address of a variable: sanitizers may keep those elsewhere.
  return static_cast<const std::byte*>(__builtin_frame_address(0)) < stack_limit();
}

} // namespace farcall::am
