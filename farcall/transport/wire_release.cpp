// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/version.hpp>
#include <farcall/transport/wire_release.hpp>

namespace farcall {

std::string release_name(std::uint32_t release, std::uint32_t version) {
  return "farcall " + release_text(release) + " (wire version " + std::to_string(version) + ")";
}

std::string difference_text(std::uint32_t release, std::uint32_t version) {
  return difference_text(release_name(this_release, wire_version), release_name(release, version));
}

std::string difference_text(const std::string& here, const std::string& there) {
  return here + " here, " + there + " there; build both with the same farcall";
}

} // namespace farcall
