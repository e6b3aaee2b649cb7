// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>

#include <cstddef>
#include <string>

namespace farcall::tool {

/// Variants of the empty call, to be compared with the plain one.
struct call_variants {
  figure ready_future; ///< the handler returns a ready future
  figure reply;        ///< the handler takes a reply object and replies by it
  figure one_lane;     ///< a plain call again, just before idle_lanes
  figure idle_lanes;   ///< a plain call while other threads have unused lanes
};

/// Number of figures in call_variants.
inline constexpr std::size_t variant_figures = 4;

[[nodiscard]] call_variants measure_variants(bench_session& session, std::size_t batches);

/// Returns a line "handler with a ready future: 1.02 × a plain one; …".
[[nodiscard]] std::string variants_text(const call_variants& v, const figure& empty);
/// Returns the ratios and figures for programs.
[[nodiscard]] json variants_json(const call_variants& v, const figure& empty);

} // namespace farcall::tool
