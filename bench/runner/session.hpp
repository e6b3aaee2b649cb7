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

/// One measured figure beside the floor that was measured right before and right after it.
struct figure {
  std::string what;
  summary ns;
  summary floor;
  [[nodiscard]] double ratio() const { return ns.p50 / floor.p50; }
};

/// The set-up that the offload benchmarks share: a job with one target, both ends pinned, and the
/// floor of the link between the same two cores before, between and after the figures.
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
  /// The same for what is measured without calls, between the same two cores.
  figure measure(const std::string& what, floor_probe& probe);

  /// A process that the floor has to wait for, too, until it is idle.
  void wait_for_process(int pid) { other_pid_ = pid; }

  /// What stands above a table: the circumstances, and for other links than shm the link and what
  /// its floor is.
  [[nodiscard]] std::string heading() const;
  /// The same for programs.
  [[nodiscard]] json circumstances() const;
  /// These charts with the circumstances. `subject` is what was asked for: "offload".
  [[nodiscard]] report make_report(const std::string& subject, std::string text,
                                   std::vector<chart> charts,
                                   std::vector<std::string> left_out = {}) const;
  /// The floor of the whole run, at every x of these series.
  [[nodiscard]] chart_series floor_beside(const std::vector<chart_series>& series) const;

  /// The number of the GPU, if the target is one.
  [[nodiscard]] std::uint32_t device() const { return device_; }

  /// Waits until the target uses no processor time, and neither do the threads here.
  void wait_for_idle_target() const;

  /// Measures the floor now; the target has to be idle, which is waited for.
  std::vector<double> measure_floor();

 private:
  figure beside_floor(const std::string& what, std::vector<double> samples);

  environment env_;
  core_pair cores_;
  std::uint32_t device_;
  progress bar_;
  std::unique_ptr<floor_probe> meter_; // before the job, as the link: they fork
  bench_link link_;
  std::optional<scoped_pin> pin_;
  farcall::job job_;
  node target_;
  std::vector<double> last_floor_;
  int other_pid_ = 0;
};

/// A job whose targets run this command again, whatever the environment says they shall run.
[[nodiscard]] job_options job_of_this_program(const std::string& targets);

/// The targets' processes, as far as they are on this machine.
[[nodiscard]] std::vector<int> pids_of(const job& j);

/// Processor time that a process has used, all its threads together, in nanoseconds; -1 when it has
/// gone.
[[nodiscard]] double processor_time_ns(int pid);

/// Waits until a process uses no processor time; gives up quietly after a second, the figures then
/// show it.
void wait_until_idle(int pid);

/// {"p1":…,"p50":…,"p99":…,"floor_p50":…,"ratio":…}.
[[nodiscard]] json figure_json(const figure& f);

/// As a row of a chart, and as a point of a series.
[[nodiscard]] chart_row row_of(const figure& f);
[[nodiscard]] chart_point point_of(std::size_t x, const figure& f);

/// The cells p1, p50, p99, floor, ratio of a table row.
[[nodiscard]] std::vector<std::string> figure_cells(const figure& f);

} // namespace farcall::tool
