#include "errors.hpp"

#include "process.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

int AMX_VerboseErrors = 0;
int AMX_SilentMode = 0;
const char* AMX_ProcessLabel = nullptr;

namespace farcall::am2 {

int failed(int error, const char* function, const char* why) noexcept {
  if (AMX_VerboseErrors == 0) return error;
  static constexpr std::array names{"AM_OK",           "AM_ERR_NOT_INIT", "AM_ERR_BAD_ARG",
                                    "AM_ERR_RESOURCE", "AM_ERR_NOT_SENT", "AM_ERR_IN_USE"};
  std::fprintf(stderr, "AM-2%s%s: %s returns %s: %s\n", AMX_ProcessLabel != nullptr ? " " : "",
               AMX_ProcessLabel != nullptr ? AMX_ProcessLabel : "", function,
               names[static_cast<std::size_t>(error)], why);
  return error;
}

} // namespace farcall::am2

void AMX_FatalErr(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fflush(stdout);
  std::fprintf(stderr, "*** AM-2 fatal error%s%s: ", AMX_ProcessLabel != nullptr ? " of " : "",
               AMX_ProcessLabel != nullptr ? AMX_ProcessLabel : "");
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}
