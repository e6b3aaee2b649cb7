// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace farcall::veo {

/// Prints source files and line numbers for stack traces. A second instance of the program reads
/// the debug information, because a crashed process cannot do so safely.

/// Writes a line to standard error for each address whose source line is known from debug
/// information. The first address is a program counter, the others are return addresses. Safe in
/// signal handlers, because it does not allocate or lock. Blocks for milliseconds, at most for 3 s.
/// The program's main() must begin with a call of is_for_source_lines().
void write_source_lines(std::span<void* const> places) noexcept;

/// Returns true if write_source_lines() in another process has started this process. In this case
/// is_for_source_lines() has already written the source lines, and main() must return at once.
[[nodiscard]] bool is_for_source_lines(int argc, char** argv) noexcept;

} // namespace farcall::veo
