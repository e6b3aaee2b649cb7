#pragma once

#include "debug_info.hpp"

#include <chrono>
#include <string>

namespace farcall::tool {

/// read_source_frames() in a forked process, with bounds on its memory: damaged debug information
/// has libdw crash, allocate without end, or open what it names, even a pipe. Returns why it ended
/// before its time, for people, and empty where it did not; what `take` had been given by then
/// stays. It has so ended, too, when nothing has come for as long as `patience`. Texts are cut to
/// longest_source_text. Throws failed_run when no process can be started.
[[nodiscard]] std::string
read_source_frames_apart(int file, std::span<const std::uint64_t> addresses,
                         const std::function<void(std::size_t, std::vector<source_frame>)>& take,
                         std::chrono::milliseconds patience = std::chrono::minutes(1));

/// Nobody reads names that are longer.
inline constexpr std::size_t longest_source_text = std::size_t{1} << 16;

} // namespace farcall::tool
