#pragma once

#include <bench/report/model.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace farcall::tool {

/// The bandwidth of copies of so many bytes, which took these nanoseconds each, beside that of the
/// copies that are their floor. `at_once` copies were made at the same time.
[[nodiscard]] chart_point bandwidth_point(std::size_t bytes, const summary& ns,
                                          const summary& floor_ns, std::size_t at_once = 1);

/// Bandwidths against the size of the copy.
[[nodiscard]] line_chart bandwidth_chart(std::string title, std::string subtitle,
                                         std::vector<chart_series> series);

} // namespace farcall::tool
