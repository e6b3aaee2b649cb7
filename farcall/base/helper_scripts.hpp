// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/fixed_text.hpp>

#include <array>
#include <cstddef>

namespace farcall {

/// Number of shell scripts whose output a dying process collects. Everything in this header is
/// async-signal-safe, without allocation and locks.
inline constexpr std::size_t helper_scripts = 2;

/// Runs all scripts at the same time, and stores the output of one of them in `output`: the first
/// script's, or if that has none, the next one's. Waits until all scripts have ended, or the first
/// script has ended with output, but at most until the deadline. Scripts that are then still
/// running are killed with the processes that they have started; so are all scripts if this process
/// ends. Returns false if there is no output because a script was killed or could not be started.
/// With `gives_way`, scripts only use CPU time that no other process wants.
[[nodiscard]] bool run_helper_scripts(std::array<fixed_text, helper_scripts>& scripts,
                                      fixed_text& output, time_point deadline,
                                      bool gives_way) noexcept;

} // namespace farcall
