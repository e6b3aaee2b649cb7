// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/code.hpp>
#include <farcall/gpu/transport/cuda.hpp>

namespace farcall {

/// Returns the part of this program that devices run: its code of kind `handlers`, which is
/// `threads` or `gpu`, and its launches of kind `launches`. For `gpu`, a GPU must be selected,
/// because the addresses of the code are read from the GPU. Throws error if a function with code of
/// kind `gpu` has a name that CUDA's compiler makes up, because other programs could not find it.
[[nodiscard]] cuda::device_program device_program_of(device_code::kind handlers,
                                                     device_code::kind launches);

} // namespace farcall
