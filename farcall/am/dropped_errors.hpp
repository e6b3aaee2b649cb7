#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <exception>

namespace farcall::am {

/// Counts an error that no code sees, because its future was dropped, and logs the first one of
/// this process. Ends of nodes, deadlines and stops do not count: a job that ends fails what is
/// left. Any thread.
void note_dropped_error(const std::exception_ptr& failure) noexcept;

/// Errors of this process that note_dropped_error() has counted.
[[nodiscard]] std::uint64_t dropped_errors() noexcept;

/// Logs how many errors were dropped since the last call, if the first line does not say it. At the
/// end of a job.
void log_dropped_errors() noexcept;

} // namespace farcall::am
