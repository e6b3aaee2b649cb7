// SPDX-License-Identifier: Apache-2.0
#include <bench/commands.hpp>
#include <bench/runner/floor.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/table.hpp>

#include <string>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

report to_report(const floor_meter& memory, const connection_floor& connection,
                 const environment& env, core_pair cores) {
  row_chart floors{"Lower bound of offloads",
                   "Round trips between two bound processes.",
                   {"time of a round trip"},
                   {}};
  for (const floor_probe* floor :
       {static_cast<const floor_probe*>(&memory), static_cast<const floor_probe*>(&connection)})
    floors.rows.push_back({floor->what(), floor->pooled(), nothing_measured(), ""});
  return {"farcall bench floor",
          "The bare round trip between two processes.",
          environment_text(env, cores),
          {std::move(floors)},
          {}};
}

int run_floor(const bench_options& options) {
  const core_pair cores = options.cores();
  const environment env = read_environment();
  const std::size_t batches = options.batches_or(640, floor_places);
  const std::size_t calls = 1000;
  progress bar{"floor", 2};
  bar.begin_step("round trips of one cache line each way");
  floor_meter meter{cores, batches, calls};
  const summary floor = summarize(meter.measure());
  bar.begin_step("round trips over a bare connection");
  connection_floor connection{cores, floor_places, far_floor_calls};
  const summary over_tcp = summarize(connection.measure());
  bar.finish();
  if (options.json) {
    print_json({{"floor_ns", percentiles_json(floor)},
                {"batches", floor.samples},
                {"round_trips_per_batch", calls},
                {"connection_floor_ns", percentiles_json(over_tcp)},
                {"env", environment_json(env, cores)}});
  } else {
    print(environment_text(env, cores) + '\n');
    table out{{{"figure", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"batches"}}};
    const auto add = [&](const floor_probe& probe, const summary& s) {
      std::vector<std::string> row{fmt::format("floor: round trip, {}", probe.what())};
      for (std::string& cell : percentile_cells(s, format_time))
        row.push_back(std::move(cell));
      row.push_back(fmt::format("{}", s.samples));
      out.add_row(std::move(row));
    };
    add(meter, floor);
    add(connection, over_tcp);
    print(out.text());
  }
  options.draw([&] { return to_report(meter, connection, env, cores); });
  return 0;
}

} // namespace

command command_floor() {
  auto options = std::make_shared<bench_options>();
  return benchmark(
      "floor", "The bare round trip between two processes: one cache line each way, and over TCP",
      shared_options(*options), options, run_floor);
}

} // namespace farcall::tool
