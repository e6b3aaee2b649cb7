#pragma once

#include <farcall/base/language.hpp>

#include <exception>

namespace farcall {

/// Stops the end of the calling thread that pthread_exit() or a cancellation has begun, and that a
/// `catch (...)` block has caught; called in that block, or in what it calls. The C library ends
/// the process, "FATAL: exception not rethrown", if the block is left otherwise. True if it was
/// such an end.
bool stop_forced_unwind() noexcept;

/// Returns std::current_exception(), in a `catch (...)` block. After stop_forced_unwind(), and for
/// exceptions of other languages, which it cannot hold, an `error` that says so.
[[nodiscard]] std::exception_ptr caught_exception() noexcept;

/// Describes what stop_forced_unwind() has stopped.
inline constexpr const char* stopped_unwind_text =
    "pthread_exit() or a cancellation was to end the thread that ran this function, and threads "
    "of farcall's go on; return from the function, or throw";

} // namespace farcall
