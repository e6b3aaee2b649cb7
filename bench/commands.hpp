// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/command_line.hpp>

namespace farcall::tool {

/// Commands of `farcall bench`, each in a folder of its name.
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
[[nodiscard]] command command_veo_memory(); ///< if this build has libveo
[[nodiscard]] command command_am2();        ///< if this build has AM-2
[[nodiscard]] command command_collectives();
[[nodiscard]] command command_waking();
[[nodiscard]] command command_ucx();
[[nodiscard]] command command_mpi();
[[nodiscard]] command command_rivals();

} // namespace farcall::tool
