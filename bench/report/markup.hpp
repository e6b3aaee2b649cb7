#pragma once

#include <bench/report/model.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// A coordinate: at most two decimals, no more than are needed. Not-a-number is 0.
[[nodiscard]] std::string coordinate(double value);

/// A measured value with its unit: "187 ns", "1.05 µs", "12.3 GB/s"; "-" when it is not finite.
[[nodiscard]] std::string value_text(unit counts, double value);

/// The same for a tick: "200 ns", "1 µs", without zeros that say nothing.
[[nodiscard]] std::string tick_text(unit counts, double value);

/// Lines of at most so many columns, broken between words; a longer word stays whole.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

} // namespace farcall::tool
