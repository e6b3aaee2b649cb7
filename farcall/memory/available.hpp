// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace farcall {

/// Returns the bytes of memory that a process can get without swapping. Two amounts limit these
/// bytes: the memory that the system has available, and the memory that the process's control
/// groups (version 1 or 2) still allow. The smaller amount is returned. Pages that only cache files
/// count as available. Returns nothing if the system states neither amount. Reads some files below
/// `root`; never blocks.
[[nodiscard]] std::optional<std::uint64_t>
available_memory(const std::filesystem::path& root = "/");

} // namespace farcall
