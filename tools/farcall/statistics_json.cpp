#include "statistics_json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

namespace farcall::tool {

double rounded(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return std::round(value * scale) / scale;
}

nlohmann::ordered_json percentiles_json(const summary& s, int decimals) {
  return {{"p1", rounded(s.p1, decimals)},
          {"p50", rounded(s.p50, decimals)},
          {"p99", rounded(s.p99, decimals)}};
}

} // namespace farcall::tool
