// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

namespace farcall::am {

/// True if too little space is left on the calling thread's stack to run another continuation on
/// top of the waiting one.
[[nodiscard]] bool stack_is_low() noexcept;

} // namespace farcall::am
