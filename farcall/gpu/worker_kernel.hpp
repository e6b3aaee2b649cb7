#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>

namespace farcall::am {

/// The kernel that is a worker of a GPU: takes a cuda::worker_setup. In the same device link as the
/// handlers that it runs.
[[nodiscard]] const void* device_executor() noexcept;

/// Bytes of shared memory that it needs.
[[nodiscard]] std::size_t device_executor_memory() noexcept;

} // namespace farcall::am
