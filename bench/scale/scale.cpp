// SPDX-License-Identifier: Apache-2.0
#include "scale.hpp"
#include "growth.hpp"
#include "nodes.hpp"
#include "rates.hpp"

#include <bench/commands.hpp>
#include <bench/rivals/rivals.hpp>
#include <bench/runner/floor.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/link.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <farcall/farcall.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

double processor_time_of_all(const std::vector<int>& pids) {
  double sum = 0;
  for (const int pid : pids)
    sum += processor_time_ns(pid);
  return sum;
}

namespace {

constexpr std::array<std::size_t, 5> powers{1, 2, 4, 8, 16};
constexpr std::size_t lanes_opened = 16;
constexpr std::size_t round_robin_targets = 8;

struct throughput {
  std::size_t targets = 0;
  std::size_t threads = 0;
  summary sync_per_s;
  summary async_per_s;
};

struct scale_result {
  std::vector<std::pair<std::size_t, summary>> start_ms;
  std::vector<std::pair<std::size_t, double>> idle_targets_percent; ///< of one core, per target
  std::vector<std::pair<std::size_t, double>> idle_host_percent;
  std::vector<std::pair<std::size_t, double>> node_kib;
  double lane_kib = 0;
  std::vector<throughput> calls;
  summary round_robin_ns;
  summary futex_ns;
  std::string futex_failure;
};

job_options targets_without_pinning(std::size_t n) {
  return job_of_this_program(fmt::format("shm:{}", n));
}

/// Returns the proportional set size: pages that several processes share are divided among them, so
/// that the sum over the job counts each page once.
double pss_kib(int pid) {
  return static_cast<double>(value_in_file(fmt::format("/proc/{}/smaps_rollup", pid), "Pss"));
}

double pss_of_all_kib(const std::vector<int>& pids) {
  double sum = pss_kib(getpid());
  for (const int pid : pids)
    sum += pss_kib(pid);
  return sum;
}

summary measure_start(std::size_t targets, std::size_t batches) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < batches + 1; ++i) {
    const stopwatch watch;
    const job j{targets_without_pinning(targets)};
    for (const node& target : j.targets()) {
      if (sync(target, offloaded::add, 1.0, 2.0) != 3.0)
        throw failed_run("wrong result of the first call");
    }
    if (i > 0)
      samples.push_back(watch.nanoseconds() / 1e6); // the first one reads the program's file
  }
  return summarize(std::move(samples));
}

void measure_memory_and_idling(std::size_t targets, double host_before_kib, bool quick,
                               scale_result& result) {
  const job j{targets_without_pinning(targets)};
  for (const node& target : j.targets())
    sync(target, offloaded::nothing);
  const std::vector<int> pids = pids_of(j);
  for (const int pid : pids)
    wait_until_idle(pid);
  const double with_job = pss_of_all_kib(pids);
  result.node_kib.emplace_back(targets,
                               (with_job - host_before_kib) / static_cast<double>(targets));
  if (targets == 1) {
    const node target = j.targets().front();
    std::vector<std::unique_ptr<lane>> lanes;
    for (std::size_t i = 0; i < lanes_opened; ++i) {
      lanes.push_back(std::make_unique<lane>(target));
      sync(*lanes.back(), offloaded::nothing);
    }
    result.lane_kib = (pss_of_all_kib(pids) - with_job) / static_cast<double>(lanes_opened);
  }

  // Measure the idle job after a second, in which threads may still spin.
  std::this_thread::sleep_for(std::chrono::seconds{1});
  const double used_before = processor_time_of_all(pids);
  const double host_used_before = processor_time_ns(getpid());
  const stopwatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds{quick ? 500 : 2000});
  const double elapsed = watch.nanoseconds();
  const double used = processor_time_of_all(pids) - used_before;
  const double host_used = processor_time_ns(getpid()) - host_used_before;
  result.idle_targets_percent.emplace_back(targets,
                                           100 * used / elapsed / static_cast<double>(targets));
  result.idle_host_percent.emplace_back(targets, 100 * host_used / elapsed);
}

summary measure_round_robin(std::size_t batches) {
  const job j{targets_without_pinning(round_robin_targets)};
  constexpr std::size_t rounds = 20;
  return summarize(time_batches(batches, rounds * round_robin_targets, 3, [&] {
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const node& target : j.targets())
        sync(target, offloaded::nothing);
    }
  }));
}

scale_result measure_all(const bench_options& options, core_pair cores,
                         std::span<const std::size_t> targets, std::span<const std::size_t> threads,
                         progress& bar) {
  scale_result result;
  const std::size_t batches = options.batches_or(40, 20);
  const auto slice = std::chrono::milliseconds{options.quick ? 5 : 20};

  bar.begin_step("futex wake-up");
  rival_settings futex{.cores = cores, .batches = batches};
  measured round_trip = futex_round_trip(futex);
  result.futex_ns = summarize(std::move(round_trip.samples));
  result.futex_failure = round_trip.failure;
  bar.begin_step("round robin over 8 targets");
  result.round_robin_ns = measure_round_robin(batches);

  for (const std::size_t n : targets) {
    bar.begin_step(fmt::format("{} targets: memory and idling", n));
    measure_memory_and_idling(n, pss_kib(getpid()), options.quick, result);
    bar.begin_step(fmt::format("{} targets: start", n));
    result.start_ms.emplace_back(n, measure_start(n, options.batches_or(20, 20)));
    const job j{targets_without_pinning(n)};
    for (const std::size_t t : threads) {
      bar.begin_step(fmt::format("{} targets, {} threads: calls", n, t));
      throughput row{n, t, {}, {}};
      row.sync_per_s =
          summarize(measure_rate(j.targets(), t, call_kind::synchronous, batches, slice));
      row.async_per_s =
          summarize(measure_rate(j.targets(), t, call_kind::pipelined, batches, slice));
      result.calls.push_back(row);
    }
  }
  return result;
}

double round_robin_ratio(const scale_result& r) { return r.round_robin_ns.p50 / r.futex_ns.p50; }

json to_json(const scale_result& r, const summary& floor, const environment& env, core_pair cores) {
  const auto by_targets = [](const auto& pairs, auto to_value) {
    json document;
    for (const auto& [n, value] : pairs)
      document[fmt::format("{}", n)] = to_value(value);
    return document;
  };
  const auto number = [](double value) { return rounded(value, 3); };
  json calls = json::array();
  for (const throughput& row : r.calls) {
    calls.push_back({{"targets", row.targets},
                     {"threads", row.threads},
                     {"sync_calls_per_s", percentiles_json(row.sync_per_s, 0)},
                     {"async_calls_per_s", percentiles_json(row.async_per_s, 0)}});
  }
  json round_robin{{"targets", round_robin_targets},
                   {"sync_ns", percentiles_json(r.round_robin_ns)},
                   {"futex_round_trip_ns", percentiles_json(r.futex_ns)},
                   {"ratio", rounded(round_robin_ratio(r))}};
  if (!r.futex_failure.empty()) round_robin["futex_failure"] = r.futex_failure;
  return {
      {"floor_ns", percentiles_json(floor)},
      {"start_ms", by_targets(r.start_ms, [](const summary& s) { return percentiles_json(s, 3); })},
      {"memory_per_node_kib", by_targets(r.node_kib, number)},
      {"memory_per_lane_kib", rounded(r.lane_kib)},
      {"idle_target_cpu_percent", by_targets(r.idle_targets_percent, number)},
      {"idle_host_cpu_percent", by_targets(r.idle_host_percent, number)},
      {"calls", std::move(calls)},
      {"round_robin", std::move(round_robin)},
      {"env", environment_json(env, cores)}};
}

std::string to_table(const scale_result& r, const summary& floor, core_pair cores) {
  table starts{{{"targets"},
                {"start p1"},
                {"p50"},
                {"p99"},
                {"KiB per node"},
                {"idle CPU per target"},
                {"idle CPU of host"}}};
  const auto ms = [](double value) { return format_time(value * 1e6); };
  for (std::size_t i = 0; i < r.start_ms.size(); ++i) {
    const summary& s = r.start_ms[i].second;
    starts.add_row({fmt::format("{}", r.start_ms[i].first), ms(s.p1), ms(s.p50), ms(s.p99),
                    fmt::format("{:.0f}", r.node_kib[i].second),
                    fmt::format("{:.2f} %", r.idle_targets_percent[i].second),
                    fmt::format("{:.2f} %", r.idle_host_percent[i].second)});
  }
  table calls{
      {{"targets"}, {"threads"}, {"sync p1"}, {"p50"}, {"p99"}, {"async p1"}, {"p50"}, {"p99"}}};
  for (const throughput& row : r.calls) {
    std::vector<std::string> cells{fmt::format("{}", row.targets), fmt::format("{}", row.threads)};
    for (const summary& s : {row.sync_per_s, row.async_per_s}) {
      for (std::string& cell : percentile_cells(s, format_rate))
        cells.push_back(std::move(cell));
    }
    calls.add_row(std::move(cells));
  }
  table turns{{{"per call", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"to futex"}}};
  const auto turn = [&](const std::string& what, const summary& s, const std::string& ratio) {
    std::vector<std::string> cells{what};
    for (std::string& cell : percentile_cells(s, format_time))
      cells.push_back(std::move(cell));
    cells.push_back(ratio);
    turns.add_row(std::move(cells));
  };
  turn("floor", floor, "");
  turn("futex wake-up round trip", r.futex_ns,
       r.futex_failure.empty() ? "1.00 x" : r.futex_failure);
  turn("sync to one of 8 targets in turn", r.round_robin_ns, format_ratio(round_robin_ratio(r)));
  std::string text =
      "start: from the constructor to the first result of every target; targets are not pinned\n\n";
  text += starts.text();
  text += fmt::format("\none more lane takes {:.0f} KiB (both processes together)\n\n", r.lane_kib);
  text += fmt::format(
      "calls per second of all host threads together, async with a window of {}\n\n", rate_window);
  text += calls.text();
  text +=
      fmt::format("\n(floor and futex between processors {} and {})\n\n", cores.host, cores.target);
  return text + turns.text();
}

/// Returns a chart of figures without a spread, against the number of targets.
line_chart by_targets(const char* title, axis y, const char* name,
                      const std::vector<std::pair<std::size_t, double>>& figures, double factor) {
  chart_series s{name, {}, series_role::figure};
  for (const auto& [n, value] : figures)
    s.points.push_back({static_cast<double>(n), only(value * factor)});
  return {title, "", {"targets", unit::count, scale::log2}, std::move(y), {std::move(s)}};
}

report to_report(const scale_result& r, const floor_probe& floor, const environment& env,
                 core_pair cores) {
  std::vector<chart> charts;
  for (const bool pipelined : {false, true}) {
    std::map<std::size_t, chart_series> by_threads;
    for (const throughput& row : r.calls) {
      chart_series& s = by_threads[row.threads];
      s.name = fmt::format("{} thread{}", row.threads, row.threads == 1 ? "" : "s");
      s.points.push_back(
          {static_cast<double>(row.targets), pipelined ? row.async_per_s : row.sync_per_s});
    }
    line_chart c{pipelined ? fmt::format("Pipelined calls, {} under way", rate_window)
                           : "Synchronous calls",
                 "Rates of all host threads together; no thread is pinned.",
                 {"targets", unit::count, scale::log2},
                 {"calls per second", unit::per_second},
                 {}};
    for (auto& [threads, s] : by_threads)
      c.series.push_back(std::move(s));
    charts.emplace_back(std::move(c));
  }
  charts.emplace_back(
      row_chart{"Calls to 8 targets in turn",
                r.futex_failure.empty() ? "Floor: a futex wake-up and back, between two processors."
                                        : "No floor: " + r.futex_failure,
                {"time of a call"},
                {{"sync to one of 8 targets in turn", r.round_robin_ns, r.futex_ns, ""}}});
  line_chart start{"Start, to the first result of every target",
                   "",
                   {"targets", unit::count, scale::log2},
                   {"time"},
                   {{"start", {}, series_role::figure}}};
  for (const auto& [n, ms] : r.start_ms) {
    start.series.front().points.push_back(
        {static_cast<double>(n), converted(ms, [](double value) { return value * 1e6; })});
  }
  charts.emplace_back(std::move(start));
  charts.emplace_back(by_targets("Memory of a target", {"bytes", unit::bytes, scale::linear},
                                 "growth of all processes, for each target", r.node_kib, 1024));
  line_chart idle = by_targets("Processor time while nothing is called",
                               {"percent of a core", unit::percent, scale::linear}, "a target",
                               r.idle_targets_percent, 1);
  idle.series.push_back(by_targets("", {}, "the host", r.idle_host_percent, 1).series.front());
  charts.emplace_back(std::move(idle));
  return {"farcall bench scale",
          "Jobs of several targets, called by several threads.",
          environment_text(env, cores) + floor_text(floor),
          std::move(charts),
          {}};
}

int run_scale_over_memory(const scale_options& options) {
  const std::size_t usual = options.quick ? 4 : powers.back();
  const std::size_t max_targets = options.max_targets != 0 ? options.max_targets : usual;
  const std::size_t max_threads = options.max_threads != 0 ? options.max_threads : usual;
  const core_pair cores = options.cores();
  const environment env = read_environment();
  std::vector<std::size_t> targets;
  std::vector<std::size_t> threads;
  for (const std::size_t n : powers) {
    if (n <= max_targets) targets.push_back(n);
    if (n <= max_threads) threads.push_back(n);
  }
  progress bar{"scale", 2 + targets.size() * (2 + threads.size())};
  floor_meter meter{cores, floor_places, 1000};
  meter.measure();
  const scale_result result = measure_all(options, cores, targets, threads, bar);
  meter.measure();
  bar.finish();
  if (options.json) {
    print_json(to_json(result, meter.pooled(), env, cores));
  } else {
    print(environment_text(env, cores) + '\n' + to_table(result, meter.pooled(), cores));
  }
  options.draw([&] { return to_report(result, meter, env, cores); });
  return 0;
}

int run_scale(const scale_options& options) {
  const bool is_launched = options.launcher != "children";
  if (kind_of(options) != link_kind::shm) {
    if (is_launched)
      throw usage_problem("--launcher is for targets without --transport; leave out one of them");
    return run_scale_over_connection(options);
  }
  if (!options.targets.empty())
    throw usage_problem("--targets is for targets elsewhere; give --max-targets");
  if (!options.grow.empty()) return run_growth(options);
  if (options.most != 0) throw usage_problem("--most goes with --grow; give both, or leave it out");
  if (is_launched || !options.nodes.empty()) return run_scale_of_nodes(options);
  return run_scale_over_memory(options);
}

} // namespace

command command_scale() {
  auto options = std::make_shared<scale_options>();
  scale_options& o = *options;
  std::vector<option> all = link_options(o);
  all.push_back({.name = "--max-targets",
                 .value = &o.max_targets,
                 .text = "Most targets (default: 16, quick: 4)",
                 .range = {{1, powers.back()}}});
  all.push_back({.name = "--max-threads",
                 .value = &o.max_threads,
                 .text = "Most host threads (default: 16, quick: 4)",
                 .range = {{1, powers.back()}}});
  all.push_back({.name = "--nodes",
                 .value = &o.nodes,
                 .takes = "COUNTS",
                 .text =
                     "Measure jobs of that many targets instead, each by itself: 2,4,8,16 (start, "
                     "memory, idling, first contact); over TCP: of the one job (default: 64)"});
  all.push_back({.name = "--grow",
                 .value = &o.grow,
                 .takes = "NUMBER",
                 .text = "Measure calls per second and memory as this number grows instead",
                 .choices = {"nodes", "threads", "lanes", "calls"},
                 .excludes = "--nodes"});
  all.push_back({.name = "--most",
                 .value = &o.most,
                 .text = "Largest number of --grow (default: 1000 nodes, 1024 threads or lanes, "
                         "1000000 calls; quick: 4, and 100 calls)",
                 .range = {{1, 10'000'000}}});
  all.push_back({.name = "--launcher",
                 .value = &o.launcher,
                 .takes = "STARTER",
                 .text = "Starter of the targets of --nodes: the host (children), or mpirun",
                 .choices = {"children", "mpirun"},
                 .shows_default = true});
  all.push_back({.name = "--starts",
                 .value = &o.starts,
                 .text = "Further starts of each size of --nodes (default: 5, quick: 2)",
                 .range = {{0, 1000}}});
  all.push_back({.name = "--contact-seconds",
                 .value = &o.contact_seconds,
                 .text = "Longest time for each of the two parts of first contact (default: 20, "
                         "quick: 3; 0: leave it out)",
                 .range = {{0, 3600}}});
  return benchmark("scale",
                   "1 to 16 targets and host threads: calls per second, start-up, memory, idling, "
                   "taking turns; or "
                   "jobs of many nodes; or rates and memory as one number grows",
                   std::move(all), options, run_scale);
}

} // namespace farcall::tool
