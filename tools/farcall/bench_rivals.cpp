#include "bench.hpp"
#include "bench_floor.hpp"
#include "bench_functions.hpp"
#include "bench_session.hpp"
#include "progress.hpp"
#include "rivals.hpp"
#include "table.hpp"

#include <farcall/farcall.hpp>

#include <chrono>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace farcall::tool {

namespace {

struct rival_row {
  rival entry;
  summary ns;
  summary floor; ///< measured right before and right after
  std::string absent;
  std::string remark;
};

constexpr std::size_t calls_per_batch = 1000;

measured farcall_round_trip(const rival_settings& settings) {
  return measure_isolated(
      [&] {
        const scoped_pin pin{settings.cores.host};
        const job j{job_of_this_program(shm_target_on(settings.cores.target))};
        const node target = j.targets().front();
        return time_batches(settings.batches, settings.calls, settings.warm_up(), [&] {
          for (std::size_t i = 0; i < settings.calls; ++i) {
            if (sync(target, offloaded::successor, std::uint64_t{i}) != i + 1)
              throw failed_run("wrong result");
          }
        });
      },
      std::chrono::seconds{60});
}

rival farcall_entry() {
  return {"farcall_sync", "farcall: sync call, 8 bytes in, 8 bytes out", farcall_round_trip};
}

std::vector<rival_row> measure_all(const rival_settings& settings, floor_meter& meter,
                                   progress& bar) {
  std::vector<rival> entries{farcall_entry(), ucx_rival(), mpi_rival()};
  for (rival& entry : kernel_rivals())
    entries.push_back(std::move(entry));
  std::vector<rival_row> rows;
  std::vector<double> before = meter.measure();
  for (rival& entry : entries) {
    bar.begin_step(entry.what);
    measured m = entry.measure(settings);
    std::vector<double> after = meter.measure();
    std::vector<double> around = before;
    around.insert(around.end(), after.begin(), after.end());
    before = std::move(after);
    rows.push_back({std::move(entry), summarize(std::move(m.samples)), summarize(std::move(around)),
                    m.failure, m.remark});
  }
  return rows;
}

nlohmann::ordered_json to_json(const std::vector<rival_row>& rows, const floor_meter& meter,
                               const environment& env) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const rival_row& row : rows) {
    nlohmann::ordered_json json{{"name", row.entry.key}, {"what", row.entry.what}};
    if (row.absent.empty()) {
      json["round_trip_ns"] = percentiles_json(row.ns);
      json["floor_p50"] = rounded(row.floor.p50);
      json["ratio"] = rounded(row.ns.p50 / row.floor.p50);
      json["batches"] = row.ns.samples;
      if (!row.remark.empty()) json["remark"] = row.remark;
    } else {
      json["absent"] = row.absent;
    }
    list.push_back(std::move(json));
  }
  return {{"floor_ns", percentiles_json(meter.pooled())},
          {"rivals", std::move(list)},
          {"env", environment_json(env, meter.cores())}};
}

std::string to_table(const std::vector<rival_row>& rows, const floor_meter& meter) {
  table out{{{"round trip of 8 bytes", table::align::left},
             {"p1"},
             {"p50"},
             {"p99"},
             {"floor"},
             {"to floor"},
             {"remark", table::align::left}}};
  std::string absent;
  for (const rival_row& row : rows) {
    if (!row.absent.empty()) {
      absent += fmt::format("absent: {}: {}\n", row.entry.what, row.absent);
      continue;
    }
    std::vector<std::string> cells{row.entry.what};
    for (std::string& cell : percentile_cells(row.ns, format_time))
      cells.push_back(std::move(cell));
    cells.push_back(format_time(row.floor.p50));
    cells.push_back(format_ratio(row.ns.p50 / row.floor.p50));
    cells.push_back(row.remark);
    out.add_row(std::move(cells));
  }
  const summary floor = meter.pooled();
  std::vector<std::string> cells{"floor of the whole run: one cache line each way"};
  for (std::string& cell : percentile_cells(floor, format_time))
    cells.push_back(std::move(cell));
  out.add_row(std::move(cells));
  return out.text() + absent;
}

int run_rivals(const bench_options& options) {
  const core_pair cores = options.cores();
  const environment env = read_environment();
  rival_settings settings{.cores = cores, .batches = options.batches_or(200, 20)};
  settings.calls = cores.shared() ? 20 : calls_per_batch;
  progress bar{"rivals", kernel_rivals().size() + 3};
  floor_meter meter{cores, floor_places, calls_per_batch};
  const std::vector<rival_row> rows = measure_all(settings, meter, bar);
  bar.finish();
  // Others may be absent; farcall itself may not.
  if (!rows.front().absent.empty())
    throw failed_run("farcall's own figure failed: " + rows.front().absent);
  if (options.json) {
    print_json(to_json(rows, meter, env));
  } else {
    print(environment_text(env, cores) + '\n' + to_table(rows, meter));
  }
  return 0;
}

} // namespace

void add_bench_rivals(CLI::App& bench, action& chosen) {
  auto options = std::make_shared<bench_options>();
  CLI::App* app = bench.add_subcommand(
      "rivals",
      "Other ways to another process and back in the same run: UCX, MPI, sockets, pipes, futex");
  add_shared_options(*app, *options);
  app->callback([options, &chosen] { chosen = [options] { return run_rivals(*options); }; });
}

} // namespace farcall::tool
