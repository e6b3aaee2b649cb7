// SPDX-License-Identifier: Apache-2.0
#include "nodes.hpp"
#include "scale.hpp"

#include <bench/runner/functions.hpp>
#include <bench/runner/link.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t usual_nodes = 64;

struct scale_result {
  std::size_t nodes = 0;
  double host_mib_per_node = 0;
  double idle_targets_ms = 0; ///< CPU time in one idle second, of all targets together
  double idle_host_ms = 0;
  std::size_t targets_here = 0; ///< targets on this machine, whose use is measured
  summary start_ms;
  summary in_turn_ns;
};

/// Returns the resident memory of this process.
double resident_mib() {
  return static_cast<double>(value_in_file("/proc/self/status", "VmRSS")) / 1024;
}

void call_every_target(const job& j) {
  std::uint64_t number = 0;
  for (const node& target : j.targets()) {
    if (sync(target, offloaded::successor, number) != number + 1)
      throw failed_run("wrong result of a call");
    ++number;
  }
}

/// Measures idle targets, after a second in which spinning threads go to sleep.
void measure_idling(const job& j, scale_result& result) {
  const std::vector<int> pids = pids_of(j);
  result.targets_here = pids.size();
  std::this_thread::sleep_for(std::chrono::seconds{1});
  const double targets_before = processor_time_of_all(pids);
  const double host_before = processor_time_ns(getpid());
  std::this_thread::sleep_for(std::chrono::seconds{1});
  result.idle_targets_ms = (processor_time_of_all(pids) - targets_before) / 1e6;
  result.idle_host_ms = (processor_time_ns(getpid()) - host_before) / 1e6;
}

summary measure_start(const bench_link& link, std::size_t nodes, std::size_t batches) {
  std::vector<double> samples(batches);
  for (double& sample : samples) {
    const stopwatch watch;
    const job j{link.targets(nodes)};
    call_every_target(j);
    sample = watch.nanoseconds() / 1e6;
  }
  return summarize(std::move(samples));
}

scale_result measure_all(const scale_options& options, std::size_t nodes, const bench_link& link,
                         progress& bar) {
  scale_result result;
  bar.begin_step("memory and idling");
  const double before = resident_mib();
  {
    const job j{link.targets(nodes)};
    call_every_target(j);
    result.nodes = j.targets().size();
    result.host_mib_per_node = (resident_mib() - before) / static_cast<double>(result.nodes);
    measure_idling(j, result);
    bar.begin_step("one after another");
    result.in_turn_ns = summarize(
        time_batches(options.batches_or(40, 20), result.nodes, 3, [&] { call_every_target(j); }));
  }
  bar.begin_step("start");
  result.start_ms = measure_start(link, nodes, options.batches_or(20, min_batches));
  return result;
}

json to_json(const scale_result& r, const link_session& session) {
  return {{"floor_ns", percentiles_json(session.floor().pooled())},
          {"nodes", r.nodes},
          {"host_mib_per_node", rounded(r.host_mib_per_node, 3)},
          {"idle_targets_cpu_ms_per_s", rounded(r.idle_targets_ms, 3)},
          {"idle_targets_looked_at", r.targets_here},
          {"idle_host_cpu_ms_per_s", rounded(r.idle_host_ms, 3)},
          {"start_ms", percentiles_json(r.start_ms, 3)},
          {"in_turn_sync_ns", percentiles_json(r.in_turn_ns)},
          {"env", session.circumstances()}};
}

std::string to_table(const scale_result& r, const floor_probe& floor) {
  table out{{{fmt::format("{} nodes in one job, not pinned", r.nodes), table::align::left},
             {"p1"},
             {"p50"},
             {"p99"}}};
  const auto add = [&](const std::string& what, const summary& ns) {
    std::vector<std::string> row{what};
    for (std::string& cell : percentile_cells(ns, format_time))
      row.push_back(std::move(cell));
    out.add_row(std::move(row));
  };
  add("start, to the first result of every target",
      converted(r.start_ms, [](double ms) { return ms * 1e6; }));
  add("sync to one after another, per call", r.in_turn_ns);
  add(fmt::format("floor: {}", floor.what()), floor.pooled());
  std::string text = out.text();
  text += fmt::format("\nall {} targets replied\n", r.nodes);
  text += fmt::format("memory of the host per node: {:.2f} MiB\n", r.host_mib_per_node);
  text += fmt::format("processor time in one idle second: {:.2f} ms of the {} targets here "
                      "together, {:.2f} ms of the host\n",
                      r.idle_targets_ms, r.targets_here, r.idle_host_ms);
  return text;
}

report to_report(const scale_result& r, const link_session& session) {
  row_chart c{
      fmt::format("{} nodes in one job, not bound", r.nodes),
      fmt::format("Memory of the host per node {:.2f} MiB; processor time in an idle "
                  "second {:.2f} ms of all targets here, {:.2f} ms of the host.",
                  r.host_mib_per_node, r.idle_targets_ms, r.idle_host_ms),
      {"time"},
      {{"start, to the first result of every target",
        converted(r.start_ms, [](double ms) { return ms * 1e6; }), nothing_measured(), ""},
       {"sync to one after another, per call", r.in_turn_ns, session.floor().pooled(), ""}}};
  return session.make_report("scale", "One job with many targets behind one server.",
                             {std::move(c)});
}

} // namespace

int run_scale_over_connection(const scale_options& options) {
  const std::vector<std::size_t> sizes =
      options.nodes.empty() ? std::vector{usual_nodes} : parse_sizes(options.nodes);
  if (sizes.size() != 1) throw usage_problem("--nodes: over TCP there is one job; give one number");
  link_session session{options, "scale", 3};
  const scale_result result = measure_all(options, sizes.front(), session.link(), session.bar());
  session.finish();
  if (options.json) {
    print_json(to_json(result, session));
  } else {
    print(session.heading() + to_table(result, session.floor()));
  }
  options.draw([&] { return to_report(result, session); });
  return 0;
}

} // namespace farcall::tool
