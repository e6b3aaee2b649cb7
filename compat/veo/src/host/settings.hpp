#pragma once

/// Settings of this layer. docs/settings.md and docs/guide/10-coming-from-veo.md have them too.

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
     .text = "Where VHcalls of kernels run: in the helper process or in the program"},
};
inline constexpr const setting& nodes_setting = settings_of_veo[0];
inline constexpr const setting& vhcall_setting = settings_of_veo[1];

} // namespace farcall::veo
