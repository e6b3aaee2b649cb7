// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::veo {

/// Registers the service of VHcall and returns true if FARCALL_VHCALL is "program", so that
/// kernels' VHcalls run in this process. By default they run in the helper. NEC's library runs them
/// in a third process, which is neither the program nor the process of the kernel. Throws error for
/// an invalid value.
[[nodiscard]] bool serve_vhcall_if_asked();

} // namespace farcall::veo
