// SPDX-License-Identifier: Apache-2.0
#include "rivals.hpp"

#include <bench/commands.hpp>
#include <bench/runner/floor.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/link.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <farcall/farcall.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

struct rival_row {
  rival entry;
  summary ns;
  summary floor; ///< measured just before and after
  std::string absent;
  std::string remark;
};

/// Rivals with the same floor.
struct rival_group {
  std::string key; ///< the floor's name in JSON
  std::vector<rival> entries;
  std::unique_ptr<floor_probe> floor;
  std::vector<rival_row> rows;
};

constexpr std::size_t calls_per_batch = 1000;

measured farcall_round_trip(const rival_settings& settings, link_kind kind) {
  return measure_isolated(
      [&] {
        bench_options options;
        options.transport = word_of(kind);
        const bench_link link{options, settings.cores.target};
        const scoped_pin pin{settings.cores.host};
        const job j{link.one_target(settings.cores.target)};
        const node target = j.targets().front();
        return time_batches(settings.batches, settings.calls, settings.warm_up(), [&] {
          for (std::size_t i = 0; i < settings.calls; ++i) {
            if (sync(target, offloaded::successor, std::uint64_t{i}) != i + 1)
              throw failed_run("wrong result");
          }
        });
      },
      settings.limit());
}

rival farcall_entry(std::string key, const char* over, link_kind kind) {
  return {std::move(key), fmt::format("farcall{}: sync call, 8 bytes in, 8 bytes out", over),
          [kind](const rival_settings& settings) { return farcall_round_trip(settings, kind); }};
}

/// farcall is the first entry of each group.
std::vector<rival_group> make_groups(core_pair cores) {
  std::vector<rival_group> groups(2);
  rival_group& memory = groups[0];
  memory.key = "floor_ns";
  memory.entries = {farcall_entry("farcall_sync", "", link_kind::shm), ucx_rival(), mpi_rival(),
                    zeromq_rival(socket_kind::unix_socket), grpc_rival(socket_kind::unix_socket)};
  for (rival& entry : kernel_rivals())
    memory.entries.push_back(std::move(entry));
  memory.floor = make_floor(link_kind::shm, cores);
  rival_group& connections = groups[1];
  connections.key = "connection_floor_ns";
  connections.entries = {farcall_entry("farcall_sync_tcp", " over TCP", link_kind::tcp),
                         farcall_entry("farcall_sync_tls", " over TLS", link_kind::tls),
                         ucx_tcp_rival(),
                         mpi_tcp_rival(),
                         zeromq_rival(socket_kind::tcp),
                         grpc_rival(socket_kind::tcp)};
  connections.floor = make_floor(link_kind::tcp, cores);
  return groups;
}

void measure_group(rival_group& group, const rival_settings& settings, progress& bar) {
  std::vector<double> before = group.floor->measure();
  for (rival& entry : group.entries) {
    bar.begin_step(entry.what);
    measured m = entry.measure(settings);
    std::vector<double> after = group.floor->measure();
    std::vector<double> around = before;
    around.insert(around.end(), after.begin(), after.end());
    before = std::move(after);
    group.rows.push_back({entry, summarize(std::move(m.samples)), summarize(std::move(around)),
                          m.failure, m.remark});
  }
}

json row_json(const rival_row& row) {
  json document{{"name", row.entry.key}, {"what", row.entry.what}};
  if (!row.absent.empty()) {
    document["absent"] = row.absent;
    return document;
  }
  document["round_trip_ns"] = percentiles_json(row.ns);
  document["floor_p50"] = rounded(row.floor.p50);
  document["ratio"] = rounded(row.ns.p50 / row.floor.p50);
  document["batches"] = row.ns.samples;
  if (!row.remark.empty()) document["remark"] = row.remark;
  return document;
}

json to_json(const std::vector<rival_group>& groups, const environment& env, core_pair cores) {
  json list = json::array();
  json document;
  for (const rival_group& group : groups) {
    document[group.key] = percentiles_json(group.floor->pooled());
    for (const rival_row& row : group.rows)
      list.push_back(row_json(row));
  }
  document["rivals"] = std::move(list);
  document["env"] = environment_json(env, cores);
  return document;
}

std::string to_table(const rival_group& group) {
  table out{{{"round trip of 8 bytes", table::align::left},
             {"p1"},
             {"p50"},
             {"p99"},
             {"floor"},
             {"to floor"},
             {"remark", table::align::left}}};
  std::string absent;
  for (const rival_row& row : group.rows) {
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
  std::vector<std::string> cells{fmt::format("floor of the whole run: {}", group.floor->what())};
  for (std::string& cell : percentile_cells(group.floor->pooled(), format_time))
    cells.push_back(std::move(cell));
  out.add_row(std::move(cells));
  return out.text() + absent;
}

report to_report(const std::vector<rival_group>& groups, const environment& env, core_pair cores) {
  report r{"farcall bench rivals",
           "Ways to another process and back, on the same two cores.",
           environment_text(env, cores),
           {},
           {}};
  for (const rival_group& group : groups) {
    row_chart c{"Eight bytes there and eight bytes back",
                fmt::format("Floor: {}.", group.floor->what()),
                {"time of a round trip"},
                {}};
    for (const rival_row& row : group.rows) {
      const bool is_absent = !row.absent.empty();
      c.rows.push_back({row.entry.what, is_absent ? nothing_measured() : row.ns, row.floor,
                        is_absent ? row.absent : row.remark});
    }
    r.charts.emplace_back(std::move(c));
    r.circumstances += floor_text(*group.floor);
  }
  return r;
}

int run_rivals(const bench_options& options) {
  const core_pair cores = options.cores();
  const environment env = read_environment();
  rival_settings settings{.cores = cores, .batches = options.batches_or(200, 20)};
  settings.calls = cores.shared() ? 20 : calls_per_batch;
  std::vector<rival_group> groups = make_groups(cores);
  progress bar{"rivals", groups[0].entries.size() + groups[1].entries.size()};
  for (rival_group& group : groups) {
    measure_group(group, settings, bar);
    // Rivals may be absent, farcall may not.
    if (!group.rows.front().absent.empty())
      throw failed_run("farcall's own figure failed: " + group.rows.front().absent);
  }
  bar.finish();
  if (options.json) {
    print_json(to_json(groups, env, cores));
  } else {
    std::string text = environment_text(env, cores);
    for (const rival_group& group : groups)
      text += '\n' + to_table(group);
    print(text);
  }
  options.draw([&] { return to_report(groups, env, cores); });
  return 0;
}

} // namespace

command command_rivals() {
  auto options = std::make_shared<bench_options>();
  return benchmark(
      "rivals",
      "Other ways to another process and back in the same run: UCX, MPI, ZeroMQ, gRPC, "
      "sockets, pipes, futex",
      shared_options(*options), options, run_rivals);
}

} // namespace farcall::tool
