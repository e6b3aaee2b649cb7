#pragma once

#include <span>

namespace farcall::veo {

/// Files and lines of code, for traces. A process that has crashed cannot read debug information
/// any more, so this program is started again, only to do that.

/// Writes a line to standard error for each place that debug information knows; the first is where
/// the process was, the others are where calls return to. For handlers of signals: no allocation,
/// no lock. Takes milliseconds, at most a few seconds. The program's main() has to begin with
/// is_for_source_lines().
void write_source_lines(std::span<void* const> places) noexcept;

/// Whether this process has been started by that. Then it has done what it was started for.
[[nodiscard]] bool is_for_source_lines(int argc, char** argv) noexcept;

} // namespace farcall::veo
