// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <string>
#include <string_view>

namespace farcall::log {

/// Translates a line of the log into the terms of a compatibility layer, for instance its name for
/// nodes. Any thread may call it at any time.
using wording = std::string (*)(std::string_view text);

/// Sets the wording function for all further lines of the process. Any thread.
void set_wording(wording w) noexcept;

} // namespace farcall::log
