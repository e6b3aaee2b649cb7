// SPDX-License-Identifier: Apache-2.0
#include "terminal.hpp"

#include <farcall/base/settings.hpp>

#include <array>

#include <sys/ioctl.h>
#include <unistd.h>

namespace farcall::tool {

std::optional<std::size_t> terminal_width(int descriptor) {
  winsize size{};
  if (::isatty(descriptor) == 0 || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return {};
  return size.ws_col;
}

bool has_colours(int descriptor) {
  return farcall::environment("NO_COLOR").value_or("").empty() &&
         farcall::environment("TERM").value_or("dumb") != "dumb" && ::isatty(descriptor) != 0;
}

std::string styled_text(style as, std::string_view text) {
  // Sequences of the styles, in their order. Colours of the terminal's own palette are readable on
  // dark and on light backgrounds.
  static constexpr std::array<std::string_view, 5> sequences = {"\033[1m", "\033[36m", "\033[32m",
                                                                "\033[33m", "\033[1;31m"};
  return std::string(sequences.at(static_cast<std::size_t>(as))) + std::string(text) + "\033[0m";
}

std::string styled_for(int descriptor, style as, std::string_view text) {
  return has_colours(descriptor) ? styled_text(as, text) : std::string(text);
}

} // namespace farcall::tool
