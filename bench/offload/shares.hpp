#pragma once

#include <bench/runner/session.hpp>

#include <string>

namespace farcall::tool {

/// Where the time of a synchronous call beyond the floor goes, in nanoseconds: differences of
/// medians, so each is as uncertain as two of them, and may be negative.
struct call_shares {
  double ring;      ///< two records instead of two flags
  double engine;    ///< of an empty call: everything but its records
  double arguments; ///< two doubles there and one back, instead of none
};

[[nodiscard]] call_shares shares_of(const figure& ring_only, const figure& empty,
                                    const figure& two_doubles);

/// A line below the table.
[[nodiscard]] std::string shares_text(const call_shares& s);

/// {"ring":…,"engine":…,"arguments":…}.
[[nodiscard]] json shares_json(const call_shares& s);

} // namespace farcall::tool
