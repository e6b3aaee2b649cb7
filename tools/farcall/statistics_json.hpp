#pragma once

#include "statistics.hpp"

#include <nlohmann/json_fwd.hpp>

namespace farcall::tool {

/// {"p1":…,"p50":…,"p99":…}, rounded to hundredths; `decimals` for other units than nanoseconds.
[[nodiscard]] nlohmann::ordered_json percentiles_json(const summary& s, int decimals = 2);

/// Rounds to a number of decimals, so that JSON shows no more digits than were measured.
[[nodiscard]] double rounded(double value, int decimals = 2);

} // namespace farcall::tool
