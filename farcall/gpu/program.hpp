#pragma once

#include <farcall/gpu/code.hpp>
#include <farcall/gpu/transport/cuda.hpp>

namespace farcall {

/// What devices run of this program: its code of kind `handlers`, one of threads and gpu, and its
/// launches of kind `launches`. For a GPU that is selected: it is asked for addresses. Throws error
/// for functions that cannot be told apart there.
[[nodiscard]] cuda::device_program device_program_of(device_code::kind handlers,
                                                     device_code::kind launches);

} // namespace farcall
