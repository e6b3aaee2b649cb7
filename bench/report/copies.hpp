// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/model.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace farcall::tool {

/// Returns the bandwidth of copies of `bytes`, from their times in nanoseconds, with the bandwidth
/// of the floor's copies. `at_once` copies ran at the same time.
[[nodiscard]] chart_point bandwidth_point(std::size_t bytes, const summary& ns,
                                          const summary& floor_ns, std::size_t at_once = 1);

/// Returns a chart of bandwidths against the size of the copy.
[[nodiscard]] line_chart bandwidth_chart(std::string title, std::string subtitle,
                                         std::vector<chart_series> series);

} // namespace farcall::tool
