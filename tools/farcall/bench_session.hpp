#pragma once

#include "bench.hpp"
#include "bench_floor.hpp"
#include "environment.hpp"
#include "progress.hpp"

#include <farcall/farcall.hpp>

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace farcall::tool {

/// One measured figure beside the floor that was measured right before and right after it.
struct figure {
  std::string what;
  summary ns;
  summary floor;
  [[nodiscard]] double ratio() const { return ns.p50 / floor.p50; }
};

/// The set-up that the offload benchmarks share: a job with one target, both ends pinned, and the
/// floor of the same two cores before, between and after the figures.
class bench_session {
 public:
  bench_session(const bench_options& options, const std::string& title, std::size_t steps);

  [[nodiscard]] const node& target() const { return target_; }
  [[nodiscard]] core_pair cores() const { return cores_; }
  [[nodiscard]] const environment& env() const { return env_; }
  [[nodiscard]] summary floor() const { return meter_.pooled(); }
  [[nodiscard]] progress& bar() { return bar_; }

  /// Times `batch`, which does `operations` calls each time, between two measurements of the floor.
  figure measure(const std::string& what, std::size_t batches, std::size_t operations,
                 const std::function<void()>& batch);

  /// Measures the floor now; the target has to be idle, which is waited for.
  std::vector<double> measure_floor();

 private:
  environment env_;
  core_pair cores_;
  progress bar_;
  floor_meter meter_; // before the job: it forks
  scoped_pin pin_;
  job job_;
  node target_;
  std::vector<double> last_floor_;
};

/// A job whose targets run this command again, whatever the environment says they shall run.
[[nodiscard]] job_options job_of_this_program(const std::string& targets);

/// Processor time that a process has used, all its threads together, in nanoseconds; -1 when it has
/// gone.
[[nodiscard]] double processor_time_ns(int pid);

/// Waits until a process uses no processor time; gives up quietly after a second, the figures then
/// show it.
void wait_until_idle(int pid);

/// {"p1":…,"p50":…,"p99":…,"floor_p50":…,"ratio":…}.
[[nodiscard]] nlohmann::ordered_json figure_json(const figure& f);

/// The cells p1, p50, p99, floor, ratio of a table row.
[[nodiscard]] std::vector<std::string> figure_cells(const figure& f);

} // namespace farcall::tool
