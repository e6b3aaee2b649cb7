#pragma once

#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>

#include <cstddef>
#include <string>

namespace farcall::tool {

/// Empty calls of other kinds than the plain one, which each has to be compared with.
struct call_variants {
  figure ready_future; ///< the handler returns a future that is ready
  figure reply;        ///< the handler takes a reply and gives it
  figure eventfd;      ///< no call: a round trip between two threads that sleep in read()
  figure wait_fd;      ///< the caller sleeps in poll() on job::wait_fd()
  figure one_lane;     ///< the plain one again, right before the next
  figure idle_lanes;   ///< the same while other threads have lanes that they do not use
};

/// How many figures that is.
inline constexpr std::size_t variant_figures = 6;
/// Threads with lanes of their own beside the one that calls.
inline constexpr std::size_t idle_lane_count = 250;

[[nodiscard]] call_variants measure_variants(bench_session& session, std::size_t batches);

/// "handler with a ready future: 1.02 × a plain one; …", a line.
[[nodiscard]] std::string variants_text(const call_variants& v, const figure& empty);
/// The same for programs, with the figures.
[[nodiscard]] json variants_json(const call_variants& v, const figure& empty);

} // namespace farcall::tool
