// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <string>

namespace farcall {

/// Release of this library as a number: 0x000100 is 0.1.0. Equal to project() in CMakeLists.txt and
/// to the macros of farcall.h.
inline constexpr std::uint32_t this_release = 0x000100;

/// Returns the numbers of a release as text, for example "0.1.0"; "of an unknown release" for 0,
/// the number of builds before the first release.
[[nodiscard]] std::string release_text(std::uint32_t release);

/// Returns the name of the folder with the modules of this minor version, for example
/// "farcall-0.1".
[[nodiscard]] std::string versioned_folder();

} // namespace farcall
