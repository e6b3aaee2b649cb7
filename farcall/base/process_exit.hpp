#pragma once

#include <farcall/base/language.hpp>

namespace farcall {

/// Has is_exiting() become true in exit(), before the destructors of the static objects that are
/// complete now. Called again for later objects: a bounded number of calls has an effect.
void watch_exit() noexcept;

/// True if the process is in exit(): other threads go on, and may use what static objects have
/// owned.
[[nodiscard]] bool is_exiting() noexcept;

} // namespace farcall
