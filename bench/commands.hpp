#pragma once

#include <tools/common/command_line.hpp>

namespace farcall::tool {

/// The figures of `farcall bench`, each in a folder of its own name.
[[nodiscard]] command command_floor();
[[nodiscard]] command command_offload();
[[nodiscard]] command command_patterns();
[[nodiscard]] command command_bandwidth();
[[nodiscard]] command command_files();
[[nodiscard]] command command_scale();
[[nodiscard]] command command_start();
[[nodiscard]] command command_load();
[[nodiscard]] command command_attacks();
[[nodiscard]] command command_faults();
[[nodiscard]] command command_trace();
[[nodiscard]] command command_veo_memory(); ///< where this build has libveo
[[nodiscard]] command command_am2();        ///< where this build has AM-2
[[nodiscard]] command command_rivals();

} // namespace farcall::tool
