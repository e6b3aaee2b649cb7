// SPDX-License-Identifier: Apache-2.0
#include "debug_log.hpp"

#include <cstdio>
#include <cstdlib>

namespace farcall::veo {

bool logs_debug() noexcept {
  static const bool wanted = std::getenv("VEO_LOG_DEBUG") != nullptr;
  return wanted;
}

void debug_log(std::string_view text) noexcept {
  if (!logs_debug()) return;
  std::printf("veo: %.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(stdout);
}

} // namespace farcall::veo
