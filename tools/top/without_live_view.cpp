// SPDX-License-Identifier: Apache-2.0
#include "screen.hpp"

#include <tools/common/outcome.hpp>

/// This file replaces screen.cpp if the command is built without the live view.
namespace farcall::tool {

screen::screen() {
  throw failed_run(
      "this farcall was built without its live view; use --once or --iterations, or build it with "
      "-DFARCALL_BUILD_LIVE_VIEW=ON");
}

screen::~screen() = default;

bool screen::take_keys() { return false; }

void screen::draw(const std::string& /*title*/, const std::vector<node_rates>& /*nodes*/) {
  // Only screen.cpp uses the field, and clang warns of fields without a use.
  (void)first_row_;
}

} // namespace farcall::tool
