// SPDX-License-Identifier: Apache-2.0
#include "bandwidth.hpp"

#include <bench/report/copies.hpp>
#include <bench/runner/local_memory.hpp>
#include <bench/runner/loopback_peer.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr std::size_t largest = 256 * mib;
constexpr std::size_t quick_limit = 64 * mib;

struct row_of_copies {
  std::size_t bytes = 0;
  summary put; ///< nanoseconds; so are the next two
  summary get;
  summary plain_put;
  summary plain_get;
  summary floor;
};

struct bandwidth_result {
  std::vector<row_of_copies> rows;
  std::vector<std::string> left_out; ///< what was not measured, and why
};

/// Limit of copies in a sample: few, since each takes a round trip.
constexpr std::size_t max_copies = 200;

/// Measures a row. The bare copies wait until the target has left its core, and their peer sleeps
/// while the target works.
row_of_copies measure_row(bench_session& session, loopback_peer& peer, std::size_t bytes,
                          std::size_t batches) {
  session.bar().begin_step(format_bytes(bytes));
  const local_memory source{bytes, pages::small};
  const local_memory sink{bytes, pages::small};
  buffer<std::byte> remote = session.target().allocate<std::byte>(bytes);
  check_round_trip(source.bytes(), sink.bytes(), remote);

  const std::span<const std::byte> from = source.bytes();
  const std::span<std::byte> to = sink.bytes();
  const auto far = remote.span();
  const std::array<std::function<void()>, 4> copies{
      [&] { put_sync(from, far); },
      [&] { get_sync(far, to); },
      [&] { peer.send(from); },
      [&] { peer.fetch(to); },
  };
  constexpr std::size_t first_bare = 2;
  std::vector<double> floor = session.measure_floor();
  peer.connect();
  peer.reserve(bytes);
  const auto change_places = [&](std::size_t kind) {
    if (kind == 0) peer.rest();
    if (kind == first_bare) session.wait_for_idle_target();
  };
  const std::vector<summary> ns = take_turns(
      {.batches = batches, .copies = copies_of(bytes, max_copies), .before = change_places},
      copies);
  peer.disconnect();
  const std::vector<double> floor_after = session.measure_floor();
  floor.insert(floor.end(), floor_after.begin(), floor_after.end());
  return {bytes, ns[0], ns[1], ns[2], ns[3], summarize(std::move(floor))};
}

/// Returns the bandwidth; bytes per nanosecond are gigabytes per second.
double gb_per_second(const summary& ns, std::size_t bytes) {
  return static_cast<double>(bytes) / ns.p50;
}

double put_to_plain(const row_of_copies& row) { return row.plain_put.p50 / row.put.p50; }
double get_to_plain(const row_of_copies& row) { return row.plain_get.p50 / row.get.p50; }

json to_json(const bandwidth_result& result, const bench_session& session) {
  json rows = json::array();
  for (const row_of_copies& row : result.rows) {
    rows.push_back({
        {"bytes", row.bytes},
        {"put_gb_s", rounded(gb_per_second(row.put, row.bytes), 4)},
        {"get_gb_s", rounded(gb_per_second(row.get, row.bytes), 4)},
        {"plain_put_gb_s", rounded(gb_per_second(row.plain_put, row.bytes), 4)},
        {"plain_get_gb_s", rounded(gb_per_second(row.plain_get, row.bytes), 4)},
        {"put_to_plain", rounded(put_to_plain(row), 3)},
        {"get_to_plain", rounded(get_to_plain(row), 3)},
        {"put_ns", percentiles_json(row.put)},
        {"get_ns", percentiles_json(row.get)},
        {"plain_put_ns", percentiles_json(row.plain_put)},
        {"plain_get_ns", percentiles_json(row.plain_get)},
        {"batches", row.put.samples},
        {"floor_ns", percentiles_json(row.floor)},
        {"env", session.circumstances()},
    });
  }
  return rows;
}

std::string to_table(const bandwidth_result& result) {
  table out{{{"bytes"},
             {"plain put GB/s"},
             {"put GB/s"},
             {"put:plain"},
             {"plain get GB/s"},
             {"get GB/s"},
             {"get:plain"},
             {"put p1"},
             {"p50"},
             {"p99"},
             {"get p1"},
             {"p50"},
             {"p99"},
             {"floor"}}};
  for (const row_of_copies& row : result.rows) {
    std::vector<std::string> cells{format_bytes(row.bytes),
                                   fmt::format("{:.3g}", gb_per_second(row.plain_put, row.bytes)),
                                   fmt::format("{:.3g}", gb_per_second(row.put, row.bytes)),
                                   format_ratio(put_to_plain(row)),
                                   fmt::format("{:.3g}", gb_per_second(row.plain_get, row.bytes)),
                                   fmt::format("{:.3g}", gb_per_second(row.get, row.bytes)),
                                   format_ratio(get_to_plain(row))};
    append_spread(cells, row.put, row.get, row.floor);
    out.add_row(std::move(cells));
  }
  return "bandwidths are medians; plain: one bare TCP connection over loopback, unencrypted; a "
         "ratio above 1 means faster than that\n\n" +
         out.text();
}

std::vector<chart> to_charts(const bandwidth_result& result) {
  const auto one = [&](const char* title, summary row_of_copies::* copy,
                       summary row_of_copies::* bare) {
    chart_series ours{"farcall", {}, series_role::figure};
    chart_series plain{"floor: a bare connection", {}, series_role::floor};
    for (const row_of_copies& row : result.rows) {
      ours.points.push_back(bandwidth_point(row.bytes, row.*copy, row.*bare));
      plain.points.push_back(bandwidth_point(row.bytes, row.*bare, nothing_measured()));
    }
    return bandwidth_chart(title, "Floor: one bare TCP connection over loopback, unencrypted.",
                           {std::move(ours), std::move(plain)});
  };
  return {one("put, to the target", &row_of_copies::put, &row_of_copies::plain_put),
          one("get, from the target", &row_of_copies::get, &row_of_copies::plain_get)};
}

bandwidth_result measure_all(bench_session& session, loopback_peer& peer,
                             const bandwidth_options& options,
                             const std::vector<std::size_t>& chosen) {
  bandwidth_result result;
  for (const std::size_t bytes : chosen) {
    if (const std::size_t available = available_memory(); available < 5 * bytes + 64 * mib) {
      result.left_out.push_back(
          fmt::format("{}: needs four blocks of it, and {} of memory are available",
                      format_bytes(bytes), format_bytes(available)));
      continue;
    }
    const std::size_t batches = options.batches_or(bytes >= 256 * mib ? 20 : 40, 20);
    result.rows.push_back(measure_row(session, peer, bytes, batches));
  }
  return result;
}

} // namespace

int run_bandwidth_over_connection(const bandwidth_options& options) {
  const std::vector<std::size_t> chosen =
      chosen_sizes(options, options.quick ? quick_limit : largest, largest);
  loopback_peer peer{cores_of(options)}; // before the session, which starts threads
  bench_session session{options, "bandwidth", chosen.size()};
  const bandwidth_result result = measure_all(session, peer, options, chosen);
  print_bandwidth(options, session,
                  {to_json(result, session), to_table(result), to_charts(result), result.left_out});
  return 0;
}

} // namespace farcall::tool
