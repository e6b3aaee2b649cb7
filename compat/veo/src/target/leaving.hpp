// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

/// Ends the helper process if a kernel calls exit() or crashes, and writes output buffers if
/// possible. Writing may be impossible because of locks of streams, Fortran's runtime, the loader
/// or malloc(). The ending thread, or threads that kernels have created, may hold such locks for
/// ever.
namespace farcall::veo {

/// Time after which the process ends even if buffers have not been written.
inline constexpr std::chrono::seconds max_leaving{1};

/// Starts the threads that write buffers when the process ends. They are started early, because a
/// process that is failing may not be able to start threads. Call it once, before kernels run.
/// Throws std::system_error.
void prepare_leaving();

/// Looks up the function that writes the ftrace table. A kernel library may contain this function.
/// Call look_for_table_writer() after each dlopen(), because the loader may be locked for ever once
/// a kernel has crashed.
void look_for_table_writer() noexcept;

/// Ends the process when a kernel calls exit(). Writes the buffered output of C and Fortran
/// streams, and the ftrace table.
[[noreturn]] void leave_with_exit_reason(int status) noexcept;

/// Ends the process after a kernel has crashed on another thread. Writes only the ftrace table.
[[noreturn]] void leave_after_crash(int status) noexcept;

} // namespace farcall::veo
