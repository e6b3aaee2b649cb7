// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ham::util {

/// Pins the calling thread to processor `core`; threads that it starts later inherit the affinity.
/// If pinning is not possible, logs a warning and leaves the affinity unchanged.
void set_cpu_affinity(int core = 0);

namespace detail {
/// Pins the calling thread to a processor. Returns false if that is not possible.
[[nodiscard]] bool pin_to(int core) noexcept;
} // namespace detail

} // namespace ham::util
