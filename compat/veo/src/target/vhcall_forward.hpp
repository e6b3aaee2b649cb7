#pragma once

#include <cstdint>

struct vhcall_host;

namespace farcall::veo {

/// From now on the program is the host of kernels' VHcalls; the identifier tells it who calls.
void forward_vhcall(std::int32_t identifier) noexcept;

} // namespace farcall::veo

/// For libsysve, which asks at each call: who is the host, or null for this process itself.
extern "C" const vhcall_host* farcall_vhcall_host();
