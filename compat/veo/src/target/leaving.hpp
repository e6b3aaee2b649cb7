#pragma once

#include <chrono>

/// How the helper process ends when a kernel ends it. What is in buffers is written where that can
/// be done: threads that kernels have left behind, and the one that ends the process, may hold any
/// lock, of streams, of Fortran's run-time library, of the loader, of malloc.
namespace farcall::veo {

/// After that the process ends whether or not everything is written.
inline constexpr std::chrono::seconds longest_leaving{1};

/// Starts the threads that this takes: later there may be no means to. Once, before kernels run.
/// Throws std::system_error.
void prepare_leaving();

/// Finds what writes the table of aveorun-ftrace, which libraries of kernels may have brought.
/// After each library that is loaded, because after a crash the loader may be locked for ever.
void look_for_table_writer() noexcept;

/// For a kernel that calls exit(): writes what C's and Fortran's streams hold, and the table of
/// aveorun-ftrace.
[[noreturn]] void leave_with_last_words(int status) noexcept;

/// For a kernel that has crashed, by another thread: writes the table only.
[[noreturn]] void leave_after_crash(int status) noexcept;

} // namespace farcall::veo
