// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace farcall::openmp {

/// Calls the function at the address `code` with these words as arguments. Each argument of a
/// region's function is a pointer, or a value that fits a pointer. Throws error if the processor's
/// calling convention refuses the call, and what the function throws.
void call_region(std::uint64_t code, std::span<const std::uint64_t> arguments);

} // namespace farcall::openmp
