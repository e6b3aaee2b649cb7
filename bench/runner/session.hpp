// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floor.hpp"
#include "link.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <bench/report/model.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>

#include <farcall/farcall.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// A measured figure with its floor, measured just before and after.
struct figure {
  std::string what;
  summary ns;
  summary floor;
  /// Records of the call without the call, measured before the figure.
  std::optional<summary> ring_only = std::nullopt;
  std::optional<double> goal = std::nullopt; ///< most nanoseconds that are a success
  [[nodiscard]] double ratio() const { return ns.p50 / floor.p50; }
};

/// Shared set-up of the offload benchmarks: a job with one target, both ends pinned, and the link's
/// floor between the same two cores before, between and after the figures.
class bench_session {
 public:
  bench_session(const bench_options& options, const std::string& title, std::size_t steps);
  ~bench_session() = default;
  bench_session(const bench_session&) = delete;
  bench_session& operator=(const bench_session&) = delete;
  bench_session(bench_session&&) = delete;
  bench_session& operator=(bench_session&&) = delete;

  [[nodiscard]] farcall::job& job() { return job_; }
  [[nodiscard]] const node& target() const { return target_; }
  [[nodiscard]] core_pair cores() const { return cores_; }
  [[nodiscard]] const environment& env() const { return env_; }
  [[nodiscard]] summary floor() const { return meter_->pooled(); }
  [[nodiscard]] link_kind kind() const { return link_.kind(); }

  [[nodiscard]] progress& bar() { return bar_; }

  /// Times `batch`, which does `operations` calls each time, between two measurements of the floor.
  figure measure(const std::string& what, std::size_t batches, std::size_t operations,
                 const std::function<void()>& batch);
  /// Measures a probe without calls, between the same two cores.
  figure measure(const std::string& what, floor_probe& probe);

  /// Adds a process that must be idle too before the floor is measured.
  void wait_for_process(int pid) { other_pid_ = pid; }

  /// Returns the lines above a table: the circumstances, and for links other than shm the link and
  /// a description of its floor.
  [[nodiscard]] std::string heading() const;
  /// Returns the heading's facts for programs.
  [[nodiscard]] json circumstances() const;
  /// Returns a report of these charts and the circumstances. `subject` names the benchmark:
  /// "offload".
  [[nodiscard]] report make_report(const std::string& subject, std::string text,
                                   std::vector<chart> charts,
                                   std::vector<std::string> left_out = {}) const;
  /// Returns the floor of the whole run, at every x of these series.
  [[nodiscard]] chart_series floor_beside(const std::vector<chart_series>& series) const;

  /// Returns the number of the GPU, if the target is one.
  [[nodiscard]] std::uint32_t device() const { return device_; }

  /// Waits until the target's processes, and threads of this process that serve the link, use no
  /// CPU time.
  void wait_for_idle_target() const;

  /// Waits for an idle target and measures the floor.
  std::vector<double> measure_floor();

 private:
  figure beside_floor(const std::string& what, std::vector<double> samples);

  environment env_;
  core_pair cores_;
  std::uint32_t device_;
  progress bar_;
  std::unique_ptr<floor_probe> meter_; // before the job, like the link: both fork
  bench_link link_;
  std::optional<scoped_pin> pin_;
  farcall::job job_;
  node target_;
  std::vector<double> last_floor_;
  int other_pid_ = 0;
};

/// Returns options for a job whose targets run this command, whatever FARCALL_PROGRAM says.
[[nodiscard]] job_options job_of_this_program(const std::string& targets);

/// Returns the processes of targets on this machine.
[[nodiscard]] std::vector<int> pids_of(const job& j);

/// Returns the CPU time of a process, all threads together, in nanoseconds; -1 if it has ended.
[[nodiscard]] double processor_time_ns(int pid);

/// Waits until a process uses no CPU time; gives up after a second, which the figures then show.
void wait_until_idle(int pid);

/// Returns {"p1":…,"p50":…,"p99":…,"floor_p50":…,"ratio":…}.
[[nodiscard]] json figure_json(const figure& f);

/// Convert a figure to a row of a chart, and to a point of a series.
[[nodiscard]] chart_row row_of(const figure& f);
[[nodiscard]] chart_point point_of(std::size_t x, const figure& f);

/// Returns the cells p1, p50, p99, floor and ratio of a table row.
[[nodiscard]] std::vector<std::string> figure_cells(const figure& f);

} // namespace farcall::tool
