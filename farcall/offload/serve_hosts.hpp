// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <string>

namespace farcall {

class settings_source;
struct job_options;

namespace detail {

/// Runs this program as a server for hosts on other machines (--farcall-serve), until a signal ends
/// the process. `where` lists the addresses at which the server listens, separated by commas. This
/// function is defined in the layer `server`. Throws error and setting_error.
[[noreturn]] void serve_hosts(const std::string& where, const job_options& o,
                              const settings_source& given);

} // namespace detail
} // namespace farcall
