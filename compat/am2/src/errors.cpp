// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include "process.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

int AMX_VerboseErrors = 0;
int AMX_SilentMode = 0;
const char* AMX_ProcessLabel = nullptr;

namespace farcall::am2 {
namespace {

constexpr std::array error_names{"AM_OK",           "AM_ERR_NOT_INIT", "AM_ERR_BAD_ARG",
                                 "AM_ERR_RESOURCE", "AM_ERR_NOT_SENT", "AM_ERR_IN_USE"};

struct renamed {
  std::string_view here;
  const char* for_programs;
};
/// Functions for which error reports print another name than the source has. Programs call these
/// functions through macros or wrappers, and only know the names of those.
constexpr std::array renamed_functions{
    renamed{"allocate_endpoint", "AM_AllocateEndpoint"},
    renamed{"map", "AM_Map"},
    renamed{"map_any", "AM_MapAny"},
    renamed{"translation_name", "AM_GetTranslationName"},
    renamed{"source_endpoint", "AM_GetSourceEndpoint"},
    renamed{"AM2_SetHandler", "AM_SetHandler"},
    renamed{"AM2_SetHandlerAny", "AM_SetHandlerAny"},
    renamed{"AM2_SPMDStartup", "AMX_SPMDStartup"},
};

const char* name_for_programs(const char* function) noexcept {
  for (const renamed& r : renamed_functions)
    if (r.here == function) return r.for_programs;
  return function;
}

void print_line(const char* beginning, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
void print_line(const char* beginning, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  vprint_line(beginning, format, arguments);
  va_end(arguments);
}

} // namespace

void vprint_line(const char* beginning, const char* format, va_list arguments) noexcept {
  std::array<char, 4096> line{};
  const std::size_t most = line.size() - 1;
  std::size_t length = 0;
  const auto add = [&](int printed) {
    length = std::min(length + static_cast<std::size_t>(std::max(printed, 0)), most - 1);
  };
  const auto space = [&] { return most - length; };
  add(std::snprintf(line.data(), space(), "%s", beginning));
  const job_network& job = process::instance().network();
  if (AMX_ProcessLabel != nullptr) {
    add(std::snprintf(line.data() + length, space(), ", %s", AMX_ProcessLabel));
  } else if (job.size() > 1) {
    add(std::snprintf(line.data() + length, space(), ", process %d", job.self()));
  }
  add(std::snprintf(line.data() + length, space(), ": "));
  add(std::vsnprintf(line.data() + length, space(), format, arguments));
  line[length++] = '\n';
  if (::write(STDERR_FILENO, line.data(), length) < 0) return; // the reader has gone
}

int failed(int error, const char* function, const char* why) noexcept {
  if (AMX_VerboseErrors == 0) return error;
  const char* const name = name_for_programs(function);
  const auto at = static_cast<std::size_t>(error);
  if (at < error_names.size()) {
    print_line("AM-2", "%s returns %s: %s", name, error_names[at], why);
  } else {
    print_line("AM-2", "%s returns %d: %s", name, error, why);
  }
  return error;
}

} // namespace farcall::am2

void AMX_FatalErr(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fflush(stdout);
  farcall::am2::vprint_line("*** AM-2 fatal error", format, arguments);
  va_end(arguments);
  std::abort();
}
