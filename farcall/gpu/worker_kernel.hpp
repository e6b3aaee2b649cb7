// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>

namespace farcall::am {

/// Returns the kernel of a GPU's worker, whose parameter is a cuda::worker_setup. The kernel must
/// be in the same device link as the handlers that it runs.
[[nodiscard]] const void* device_executor() noexcept;

/// Returns the bytes of shared memory that the worker's kernel needs.
[[nodiscard]] std::size_t device_executor_memory() noexcept;

} // namespace farcall::am
