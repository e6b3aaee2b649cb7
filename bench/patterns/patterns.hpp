// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace farcall::tool {

/// The four tests of AVEO's call_latency; each takes a number of calls.
using call_tests = std::array<std::function<void(std::size_t)>, 4>;

/// Throws failed_run unless `last`, the result of the last of `calls` calls that add one each, is
/// their number.
void check_last(std::uint64_t last, std::size_t calls);

} // namespace farcall::tool
