#pragma once

#include <farcall/base/language.hpp>

#include <string>
#include <string_view>

namespace farcall::log {

/// What a compatibility layer makes of the text of a line, whose users know other names of things:
/// of nodes, say. May be called by any thread at any time.
using wording = std::string (*)(std::string_view text);

/// For all lines of the process from now on. Any thread.
void set_wording(wording w) noexcept;

} // namespace farcall::log
