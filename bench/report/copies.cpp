// SPDX-License-Identifier: Apache-2.0
#include "copies.hpp"

#include <utility>

namespace farcall::tool {

chart_point bandwidth_point(std::size_t bytes, const summary& ns, const summary& floor_ns,
                            std::size_t at_once) {
  const auto rate = [&](double each) { return static_cast<double>(bytes * at_once) / each * 1e9; };
  return {static_cast<double>(bytes), converted(ns, rate), rate(floor_ns.p50)};
}

line_chart bandwidth_chart(std::string title, std::string subtitle,
                           std::vector<chart_series> series) {
  return {std::move(title),
          std::move(subtitle),
          {"bytes of a copy", unit::bytes, scale::log2},
          {"bandwidth", unit::bytes_per_second},
          std::move(series)};
}

} // namespace farcall::tool
