#pragma once

namespace farcall::veo {

/// With FARCALL_VHCALL=program, kernels' VHcalls run in this process, and not, as with NEC's, in
/// one that stands between program and kernel: here, the helper. True in this case. Throws error
/// for another value.
[[nodiscard]] bool serve_vhcall_if_asked();

} // namespace farcall::veo
