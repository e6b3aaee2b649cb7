#pragma once

namespace ham::util {

/// Keeps the calling thread, and those that it will start, on processor `core`. Where that cannot
/// be, a warning says so, and they stay where they are.
void set_cpu_affinity(int core = 0);

namespace detail {
/// The same without the warning: false where it cannot be.
[[nodiscard]] bool pin_to(int core) noexcept;
} // namespace detail

} // namespace ham::util
