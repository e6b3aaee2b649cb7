#pragma once

#include <farcall/base/language.hpp>

#include <string>

namespace farcall {

class settings_source;
struct job_options;

namespace detail {

/// Serves hosts elsewhere with this program (--farcall-serve), at places with commas between them,
/// until a signal ends the process. Throws error and setting_error.
[[noreturn]] void serve_hosts(const std::string& where, const job_options& o,
                              const settings_source& given);

} // namespace detail
} // namespace farcall
