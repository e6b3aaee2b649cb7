#pragma once

/// What every header needs of the compiler. Included first by each, so that a program without it
/// gets this error in place of hundreds that follow from it.

#if __cplusplus < 202002L
#error "farcall needs C++20: compile with -std=c++20, or link to farcall::farcall in CMake"
#define FARCALL_LANGUAGE_IS_MISSING
#elif !defined(__cpp_exceptions)
#error "farcall needs exceptions: compile without -fno-exceptions"
#define FARCALL_LANGUAGE_IS_MISSING
#endif

// A header that does not exist ends the compilation.
#ifdef FARCALL_LANGUAGE_IS_MISSING
#include <stopped_by_the_error_above>
#endif
