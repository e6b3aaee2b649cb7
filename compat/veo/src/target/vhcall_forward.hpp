// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct vhcall_host;

namespace farcall::veo {

/// Makes the program the host of the VHcalls of this process. The identifier tells the program
/// which helper process makes a call.
void forward_vhcall(std::int32_t identifier) noexcept;

} // namespace farcall::veo

/// Returns the functions of the VHcall host, or null if this process itself is the host. libsysve
/// calls this function for each VHcall.
extern "C" const vhcall_host* farcall_vhcall_host();
