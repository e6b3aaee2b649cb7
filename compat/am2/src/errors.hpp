// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall_am2.h>

#include <cstdarg>

namespace farcall::am2 {

inline constexpr const char* not_initialised = "AM_Init was not called";

/// Writes "BEGINNING, process 1: TEXT" to standard error. A single write() is used, so that lines
/// of several processes do not mix. If AMX_ProcessLabel is set, it replaces "process 1". A job of
/// one process has no label.
void vprint_line(const char* beginning, const char* format, va_list arguments) noexcept
    __attribute__((format(printf, 2, 0)));

/// Returns `error`. If AMX_VerboseErrors is set, also prints why the AM-2 function `function`
/// returns it.
int failed(int error, const char* function, const char* why) noexcept;

} // namespace farcall::am2

/// Expression for the return statement of an AM-2 function that fails. It reports the error by
/// failed(), and its value is `error`.
#define AM2_FAIL(error, why) ::farcall::am2::failed(error, static_cast<const char*>(__func__), why)
#define AM2_REQUIRE(condition, error, why)                                                         \
  do {                                                                                             \
    if (condition) [[likely]]                                                                      \
      break;                                                                                       \
    return AM2_FAIL(error, why);                                                                   \
  } while (false)
#define AM2_REQUIRE_INIT()                                                                         \
  AM2_REQUIRE(::farcall::am2::process::instance().is_initialised(), AM_ERR_NOT_INIT,               \
              ::farcall::am2::not_initialised)
