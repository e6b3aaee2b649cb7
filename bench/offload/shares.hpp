#pragma once

#include <bench/runner/session.hpp>

#include <string>

namespace farcall::tool {

/// Parts of a synchronous call's time beyond the floor, in nanoseconds. They are differences of
/// medians, so each has the uncertainty of two medians and may be negative.
struct call_shares {
  double ring;      ///< two records in place of two flags
  double engine;    ///< an empty call's time beyond its records
  double arguments; ///< two arguments and a result, of type double, in place of none
};

[[nodiscard]] call_shares shares_of(const figure& ring_only, const figure& empty,
                                    const figure& two_doubles);

/// Returns the line below the table.
[[nodiscard]] std::string shares_text(const call_shares& s);

/// Returns {"ring":…,"engine":…,"arguments":…}.
[[nodiscard]] json shares_json(const call_shares& s);

} // namespace farcall::tool
