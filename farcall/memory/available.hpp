#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace farcall {

/// Memory that could be had without swapping, in bytes: what the system and this process' control
/// groups (both versions) leave. Pages that only cache files count as available. Nothing when it
/// cannot be told. Reads some files below `root`; never blocks.
[[nodiscard]] std::optional<std::uint64_t>
available_memory(const std::filesystem::path& root = "/");

} // namespace farcall
