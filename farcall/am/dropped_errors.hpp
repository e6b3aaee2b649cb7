// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <exception>

namespace farcall::am {

/// Counts an error that no code sees because its future was dropped, and logs the first such error
/// of this process. Failed nodes, expired deadlines and stops are not counted, because the end of a
/// job ends all remaining calls with such errors. The error forked is not counted, either. Any
/// thread may call it.
void note_dropped_error(const std::exception_ptr& failure) noexcept;

/// Returns how many errors of this process note_dropped_error() has counted.
[[nodiscard]] std::uint64_t dropped_errors() noexcept;

/// Logs how many errors were dropped since the last log line about them. Writes nothing if there
/// were none. Called at the end of a job.
void log_dropped_errors() noexcept;

} // namespace farcall::am
