// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/transport/emulated.hpp>

namespace farcall::am {

/// Returns the code of a device's worker for threads of a processor, which emulate the device.
[[nodiscard]] cuda::thread_executor device_worker_on_threads() noexcept;

} // namespace farcall::am
