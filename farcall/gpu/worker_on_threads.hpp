#pragma once

#include <farcall/gpu/transport/emulated.hpp>

namespace farcall::am {

/// The worker of a device, for threads of a processor.
[[nodiscard]] cuda::thread_executor device_worker_on_threads() noexcept;

} // namespace farcall::am
