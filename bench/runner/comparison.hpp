// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/model.hpp>
#include <bench/report/statistics.hpp>
#include <tools/common/json.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// Figures of farcall that are measured by turns with the same work without farcall.
namespace farcall::tool {

/// Goals: the most times the bare time that a figure takes.
/// Two wake-ups of a call to a sleeping target, to two futex wake-ups.
inline constexpr double sleeping_call_goal = 1.1;
/// A call by job::wait_fd(), to an eventfd round trip between two threads.
inline constexpr double wait_fd_goal = 1.1;
/// An empty call over UCX, to a round trip of eight bytes by ucp_am.
inline constexpr double ucx_call_goal = 1.1;
/// A copy over UCX, to ucp_put_nbx and ucp_get_nbx between memory of UCX: 0.9 of their rate.
inline constexpr double ucx_copy_goal = 1 / 0.9;
/// An empty call over MPI, to MPI's ping-pong of eight bytes.
inline constexpr double mpi_memory_goal = 1.2;
inline constexpr double mpi_tcp_goal = 1.15;

/// Samples of a figure, in nanoseconds, one for each turn.
struct turn_samples {
  std::vector<double> ours;
  std::vector<double> bare;
};

/// A figure beside the same work without farcall.
struct comparison {
  std::string key;      ///< name in JSON
  std::string what;     ///< text for users
  std::string bare;     ///< text about the work without farcall
  double goal = 0;      ///< most times the bare time; 0 if there is no goal
  summary ours_ns = {}; ///< medians and percentiles, in nanoseconds
  summary bare_ns = {};
  std::string absent = {}; ///< reason why the figure was not measured

  /// Stores the summaries of the samples.
  void take(turn_samples samples);
  [[nodiscard]] double ratio() const { return ours_ns.p50 / bare_ns.p50; }
  [[nodiscard]] bool is_reached() const { return ratio() <= goal; }
  /// Returns text such as "1.10 x, missed"; empty without a goal.
  [[nodiscard]] std::string goal_text() const;
};

/// Measures `turns` batches of each of the two by turns, after one batch of each that is not
/// counted. A batch returns its nanoseconds per operation.
[[nodiscard]] turn_samples measure_by_turns(std::size_t turns, const std::function<double()>& ours,
                                            const std::function<double()>& bare);

/// Returns {"p1":…,"p50":…,"p99":…,"bare":{…},"ratio":…,"goal":…,"is_reached":…}, or the reason why
/// the figure is absent.
[[nodiscard]] json comparison_json(const comparison& c);
/// Returns an object with comparison_json() of each figure, by its key.
[[nodiscard]] json comparisons_json(const std::vector<comparison>& all);
[[nodiscard]] std::string comparisons_table(const std::string& title,
                                            const std::vector<comparison>& all);
/// Returns a chart of the times, with the bare times as their floors.
[[nodiscard]] row_chart comparisons_chart(std::string title, const std::vector<comparison>& all);

} // namespace farcall::tool
