// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "debug_info.hpp"

#include <chrono>
#include <string>

namespace farcall::tool {

/// Calls read_source_frames() in a forked process with limited memory. A separate process is needed
/// because damaged debug information can make libdw crash, allocate without end, or open any file
/// that the information names, even a pipe. Returns an empty text if the process has read the whole
/// file. Returns the reason as a text for users if the process fails, or if it sends no data for
/// the time `timeout`. In this case the frames that were already passed to `take` are valid. Texts
/// are truncated to max_source_text. Throws failed_run if no process can be started.
[[nodiscard]] std::string
read_source_frames_apart(int file, std::span<const std::uint64_t> addresses,
                         const std::function<void(std::size_t, std::vector<source_frame>)>& take,
                         std::chrono::milliseconds timeout = std::chrono::minutes(1));

/// Maximum number of bytes of a name or path. Longer ones would be unreadable.
inline constexpr std::size_t max_source_text = std::size_t{1} << 16;

} // namespace farcall::tool
