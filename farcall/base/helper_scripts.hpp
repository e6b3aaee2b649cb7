#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/fixed_text.hpp>

#include <array>
#include <cstddef>

namespace farcall {

/// Shell scripts whose output a process wants that is about to die. For signal handlers: neither
/// allocates nor locks.
inline constexpr std::size_t helper_scripts = 2;

/// Runs all scripts at a time, with no output but what `output` gets. The first comes first: once
/// it has ended with output, or both have ended, the rest is killed; so it is at the deadline, and
/// if this process ends. All processes that a script has started end then. Returns false if there
/// is no output because a script was cut short, or could not be started. Scripts that give way take
/// only time of processors that no other process wants.
[[nodiscard]] bool run_helper_scripts(std::array<fixed_text, helper_scripts>& scripts,
                                      fixed_text& output, time_point deadline,
                                      bool gives_way) noexcept;

} // namespace farcall
