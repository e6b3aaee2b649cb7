#pragma once

#include <farcall/base/language.hpp>

namespace farcall::am {

/// True when so little of the calling thread's stack is left that no further handler should run on
/// top of the one that waits.
[[nodiscard]] bool stack_is_low() noexcept;

} // namespace farcall::am
