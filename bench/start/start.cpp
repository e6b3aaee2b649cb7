// SPDX-License-Identifier: Apache-2.0
#include <bench/commands.hpp>
#include <bench/runner/forwarder.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/server_process.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

struct start_options : bench_options {
  std::size_t nodes = 64; ///< number of targets of each job
  std::size_t round_trip_ms = 100;
};

struct start_row {
  std::string what;
  summary ns;             ///< time of a job's constructor
  double round_trips = 0; ///< median in round trips of the link; 0 without a delay
};

struct start_result {
  std::vector<start_row> rows;
  std::size_t starts = 0;
};

/// Returns the nanoseconds until all targets can be called.
summary time_starts(const std::string& url, const server_process& server,
                    const start_options& options, std::size_t starts) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < starts; ++i) {
    job_options o = job_of_this_program(fmt::format("{}?count={}", url, options.nodes));
    o.key = server.key_file();
    const stopwatch watch;
    const job j{o};
    samples.push_back(watch.nanoseconds());
    if (j.targets().size() != options.nodes) throw failed_run("targets are missing");
  }
  return summarize(std::move(samples));
}

start_result measure_all(const start_options& options, const server_process& server,
                         progress& bar) {
  start_result result;
  result.starts = options.batches_or(20, 3);
  bar.begin_step("a server without delay");
  result.rows.push_back({"0 ms", time_starts(server.url(), server, options, result.starts), 0});
  bar.begin_step(fmt::format("the same, {} ms away", options.round_trip_ms));
  const forwarder far(server.url(), std::chrono::milliseconds(options.round_trip_ms));
  const summary ns = time_starts(far.url(), server, options, result.starts);
  result.rows.push_back({fmt::format("{} ms", options.round_trip_ms), ns,
                         ns.p50 / 1e6 / static_cast<double>(options.round_trip_ms)});
  return result;
}

json to_json(const start_result& r, const start_options& options, const environment& env) {
  json rows = json::array();
  for (const start_row& row : r.rows) {
    json each = percentiles_json(row.ns);
    each["round_trip"] = row.what;
    each["round_trips"] = rounded(row.round_trips);
    rows.push_back(std::move(each));
  }
  return {{"targets", options.nodes},
          {"starts", r.starts},
          {"transport", options.transport},
          {"start_ns", std::move(rows)},
          {"env", environment_json(env, std::nullopt)}};
}

std::string to_table(const start_result& r, const start_options& options) {
  table out{{{"round trip", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"in round trips"}}};
  for (const start_row& row : r.rows) {
    std::vector<std::string> cells{row.what};
    for (std::string& cell : percentile_cells(row.ns, format_time))
      cells.push_back(std::move(cell));
    cells.push_back(row.round_trips == 0 ? "" : fmt::format("{:.1f}", row.round_trips));
    out.add_row(std::move(cells));
  }
  return fmt::format("{} targets of one server over {}, until all can be called; {} starts each\n",
                     options.nodes, options.transport, r.starts) +
         out.text();
}

report to_report(const start_result& r, const start_options& options, const environment& env) {
  row_chart c{"The start of a job",
              fmt::format("{} targets of one server over {}, until all can be called.",
                          options.nodes, options.transport),
              {"time of the constructor"},
              {}};
  for (const start_row& row : r.rows)
    c.rows.push_back({row.what, row.ns, nothing_measured(), ""});
  return {"farcall bench start",
          "How long a job of many targets takes to start on a server that is far away.",
          environment_text(env, std::nullopt),
          {std::move(c)},
          {}};
}

int run_start(const start_options& options) {
  const environment env = read_environment();
  // Forks, so create it before any thread.
  const server_process server({.encrypted = options.transport == "tls"});
  progress bar("start", 2);
  const start_result result = measure_all(options, server, bar);
  bar.finish();
  if (options.json) {
    print_json(to_json(result, options, env));
  } else {
    print(environment_text(env, std::nullopt) + '\n' + to_table(result, options));
  }
  options.draw([&] { return to_report(result, options, env); });
  return 0;
}

} // namespace

command command_start() {
  auto options = std::make_shared<start_options>();
  options->transport = "tls";
  std::vector<option> all = shared_options(*options);
  // Threads are not pinned.
  std::erase_if(all, [](const option& o) { return o.name.ends_with("-cpu"); });
  all.push_back({.name = "--transport",
                 .value = &options->transport,
                 .takes = "TRANSPORT",
                 .text = "Transport to the server",
                 .choices = {"tcp", "tls"},
                 .shows_default = true});
  all.push_back({.name = "--targets",
                 .value = &options->nodes,
                 .text = "Targets of each job",
                 .range = {{1, 1024}},
                 .shows_default = true});
  all.push_back({.name = "--round-trip-ms",
                 .value = &options->round_trip_ms,
                 .text = "Simulated round trip to the server",
                 .range = {{2, 10'000}},
                 .shows_default = true});
  return benchmark("start", "How long a job of many targets takes to start on a server far away",
                   std::move(all), options, run_start);
}

} // namespace farcall::tool
