// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/version.hpp>

namespace farcall {

std::string release_text(std::uint32_t release) {
  if (release == 0) return "of an unknown release";
  return std::to_string(release >> 16U) + "." + std::to_string(release >> 8U & 0xFFU) + "." +
         std::to_string(release & 0xFFU);
}

std::string versioned_folder() {
  const std::string text = release_text(this_release);
  return "farcall-" + text.substr(0, text.rfind('.'));
}

} // namespace farcall
