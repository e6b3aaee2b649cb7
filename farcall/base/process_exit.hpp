// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

namespace farcall {

/// Registers an exit handler, so that is_exiting() returns true before exit() destroys the static
/// objects that exist now. May be called again after further static objects were made; only a
/// limited number of calls has an effect.
void watch_exit() noexcept;

/// True if the process is in exit(). Other threads still run at that time, and may use memory that
/// static objects owned.
[[nodiscard]] bool is_exiting() noexcept;

} // namespace farcall
