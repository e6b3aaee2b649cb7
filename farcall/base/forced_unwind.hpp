// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <exception>

namespace farcall {

/// Stops the forced unwinding by which pthread_exit() or a cancellation ends the calling thread, so
/// that the thread goes on. A `catch (...)` block catches such an unwinding. Must be called in that
/// block, or in a function that the block calls. Without this call, the C library ends the process
/// at the end of the block with "FATAL: exception not rethrown". Returns true if it has stopped an
/// unwinding.
bool stop_forced_unwind() noexcept;

/// Returns std::current_exception() in a `catch (...)` block. An exception_ptr cannot hold an
/// exception of another language, or an unwinding that stop_forced_unwind() has stopped. In these
/// cases returns an `error` whose text says so.
[[nodiscard]] std::exception_ptr caught_exception() noexcept;

/// Text of the error that replaces an unwinding that stop_forced_unwind() has stopped.
inline constexpr const char* stopped_unwind_text =
    "pthread_exit() or a cancellation was to end the thread that ran this function, and threads "
    "of farcall's go on; return from the function, or throw";

} // namespace farcall
