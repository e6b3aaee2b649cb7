// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Settings of this compatibility layer, which docs/settings.md and
/// docs/guide/10-coming-from-veo.md also list.

#include <farcall/base/settings_table.hpp>

namespace farcall::veo {

inline constexpr setting settings_of_veo[] = {
    {.name = "veo-nodes",
     .takes = "URLs",
     .otherwise = "shm:8",
     .source = setting_source::environment,
     .text = "Nodes of the Vector Engine: shm:16, tcp://host:port"},
    {.name = "vhcall",
     .kind = setting_kind::choice,
     .takes = "helper|program",
     .otherwise = "helper",
     .source = setting_source::environment,
     .text = "Process in which VHcalls of kernels run: the helper or the program"},
    {.name = "veo-order",
     .kind = setting_kind::choice,
     .takes = "aveo|veo",
     .otherwise = "aveo",
     .source = setting_source::environment,
     .text = "Whether memory calls of a process wait for kernels of its first context: with AVEO "
             "they do, with the original VEO not"},
    {.name = "veo-errors",
     .kind = setting_kind::choice,
     .takes = "print|quiet",
     .otherwise = "print",
     .source = setting_source::environment,
     .text = "Whether calls that fail say why on standard error"},
};
inline constexpr const setting& nodes_setting = settings_of_veo[0];
inline constexpr const setting& vhcall_setting = settings_of_veo[1];
inline constexpr const setting& order_setting = settings_of_veo[2];
inline constexpr const setting& errors_setting = settings_of_veo[3];

} // namespace farcall::veo
