// SPDX-License-Identifier: Apache-2.0
#include "waking.hpp"

#include <bench/commands.hpp>
#include <bench/runner/idle_threads.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

struct waking_result {
  std::vector<comparison> calls;
  std::vector<spin_row> spins;
};

/// Spin times and gaps between calls, in microseconds.
struct sweep {
  std::vector<std::size_t> spins;
  std::vector<std::size_t> gaps;
};

sweep sweep_of(const bench_options& options) {
  if (options.quick) return {{0, 2000}, {0, 1000}};
  return {{0, 20, 100, 500, 2000, 10000}, {0, 30, 100, 300, 1000, 3000, 10000}};
}

waking_result measure(const bench_options& options, core_pair cores) {
  const sweep over = sweep_of(options);
  progress bar{"waking", 3 + over.spins.size()};
  const std::size_t turns = options.batches_or(60, min_batches);
  waking_result result;
  futex_peer bare{cores}; // forks, so before the first job
  const scoped_pin pin{cores.host};
  bar.begin_step("calls to a sleeping target");
  measure_sleeping_calls(result.calls, bare, cores, turns);
  for (const std::size_t others : {std::size_t{0}, idle_lane_count - 1}) {
    bar.begin_step(fmt::format("calls by wait_fd beside {} threads", others));
    measure_wait_fd(result.calls, cores, turns, others);
  }
  for (const std::size_t spin : over.spins) {
    bar.begin_step(fmt::format("spinning for {} µs", spin));
    result.spins.push_back(
        measure_spin(spin, over.gaps, options.batches_or(200, min_batches), cores));
  }
  bar.finish();
  return result;
}

json to_json(const waking_result& r, const environment& env, core_pair cores) {
  json spins = json::array();
  for (const spin_row& row : r.spins) {
    for (const spin_point& p : row.points) {
      spins.push_back({{"spin_us", row.spin_us},
                       {"gap_us", p.gap_us},
                       {"call_ns", percentiles_json(p.call_ns)},
                       {"target_cpu_percent", rounded(p.target_percent)},
                       {"host_cpu_percent", rounded(p.host_percent)}});
    }
  }
  return {{"calls", comparisons_json(r.calls)},
          {"spin", std::move(spins)},
          {"env", environment_json(env, cores)}};
}

std::string gap_text(std::size_t us) {
  return us == 0 ? "none" : format_time(static_cast<double>(us) * 1e3);
}

std::string to_table(const waking_result& r) {
  std::vector<table::column> columns{{"spin"}};
  for (const spin_point& p : r.spins.front().points)
    columns.push_back({gap_text(p.gap_us)});
  table latency{columns};
  table use{columns};
  for (const spin_row& row : r.spins) {
    std::vector<std::string> times{gap_text(row.spin_us)};
    std::vector<std::string> shares = times;
    for (const spin_point& p : row.points) {
      times.push_back(format_time(p.call_ns.p50));
      shares.push_back(fmt::format("{:.0f} %", p.target_percent));
    }
    latency.add_row(std::move(times));
    use.add_row(std::move(shares));
  }
  return comparisons_table("call", r.calls) +
         "\nMedian of an empty call, by the gap before it and by FARCALL_SPIN_US:\n" +
         latency.text() + "\nProcessor time of the target, in percent of a core:\n" + use.text();
}

/// Returns a chart of a value of each point, with a line for each spin time.
template <class Value>
line_chart chart_of(const waking_result& r, std::string title, axis y, Value value) {
  line_chart chart{std::move(title), "", {"µs between two calls", unit::count}, std::move(y), {}};
  for (const spin_row& row : r.spins) {
    chart_series s{fmt::format("spin {}", gap_text(row.spin_us)), {}, series_role::figure};
    for (const spin_point& p : row.points)
      s.points.push_back({static_cast<double>(p.gap_us), value(p)});
    chart.series.push_back(std::move(s));
  }
  return chart;
}

report to_report(const waking_result& r, const environment& env, core_pair cores) {
  return {"farcall bench waking",
          "Calls that wake threads, and the time for which threads spin before they sleep.",
          environment_text(env, cores),
          {comparisons_chart("Calls that wake threads", r.calls),
           chart_of(r, "An empty call after a gap", {"time of a call"},
                    [](const spin_point& p) { return p.call_ns; }),
           chart_of(r, "Processor time of the target", {"percent of a core", unit::percent},
                    [](const spin_point& p) { return only(p.target_percent); })},
          {}};
}

int run_waking(const bench_options& options) {
  const core_pair cores = options.cores();
  const environment env = read_environment();
  const waking_result result = measure(options, cores);
  if (options.json) {
    print_json(to_json(result, env, cores));
  } else {
    print(environment_text(env, cores) + '\n' + to_table(result));
  }
  options.draw([&] { return to_report(result, env, cores); });
  return 0;
}

} // namespace

command command_waking() {
  auto options = std::make_shared<bench_options>();
  return benchmark("waking",
                   "Calls to sleeping targets and by wait_fd, beside bare wake-ups; latency and "
                   "processor time by the time for which threads spin",
                   shared_options(*options), options, run_waking);
}

} // namespace farcall::tool
