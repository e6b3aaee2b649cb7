// SPDX-License-Identifier: Apache-2.0
#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

namespace farcall::tool {

std::optional<std::size_t> terminal_width(int descriptor) {
  winsize size{};
  if (::isatty(descriptor) == 0 || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return {};
  return size.ws_col;
}

} // namespace farcall::tool
