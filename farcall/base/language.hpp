// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Checks that the compiler suits farcall's headers. Each header includes this file first, so that
/// a program with an unsuitable compiler gets one clear error instead of hundreds of others.

#if __cplusplus < 202002L
#error "farcall needs C++20: compile with -std=c++20, or link to farcall::farcall in CMake"
#define FARCALL_LANGUAGE_IS_MISSING
#elif !defined(__cpp_exceptions)
#error "farcall needs exceptions: compile without -fno-exceptions"
#define FARCALL_LANGUAGE_IS_MISSING
#endif

// Include a header that does not exist, because this ends the compilation at once.
#ifdef FARCALL_LANGUAGE_IS_MISSING
#include <stopped_by_the_error_above>
#endif
