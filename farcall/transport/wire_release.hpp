// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <string>

namespace farcall {

/// Version of the wire protocol, that is, of everything in docs/wire.md. Nodes of different
/// versions refuse each other.
inline constexpr std::uint32_t wire_version = 18;
/// First wire version in which all first messages between two programs name the sender's release.
inline constexpr std::uint32_t first_wire_version_with_release = 17;

/// Returns the name of a release and its wire version, for example "farcall 0.1.0 (wire version
/// 17)". The text is printable for all numbers, so that both may come from another process.
[[nodiscard]] std::string release_name(std::uint32_t release, std::uint32_t version);

/// Returns the text of errors if the release at the other end, which has this wire version, and
/// this program's release do not fit: it names both, and says what to do.
[[nodiscard]] std::string difference_text(std::uint32_t release, std::uint32_t version);

/// Returns such a text for any description of the other end's versions.
[[nodiscard]] std::string difference_text(const std::string& here, const std::string& there);

} // namespace farcall
