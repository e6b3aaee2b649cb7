// SPDX-License-Identifier: Apache-2.0
#include "offload.hpp"

#include <bench/commands.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/options.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr std::array<std::size_t, 10> payloads{0, 8, 32, 64, 256, 1024, 4096, 16384, 32768, 65536};
constexpr std::array<std::size_t, 5> quick_payloads{0, 64, 1024, 16384, 65536};

std::span<const std::size_t> sizes_of(const bench_options& options) {
  if (options.quick) return quick_payloads;
  return payloads;
}

/// `rings` is null unless calls go through shared memory.
offload_figures measure_process(bench_session& session, const bench_options& options,
                                ring_only* rings) {
  const std::size_t batches = options.batches_or(200, 20);
  const node& target = session.target();
  offload_figures f;
  f.sync_empty = beside_rings(session, rings, {}, sync_calls, &empty_goal, [&] {
    return measure_empty(session, "sync, empty", batches, offloaded::nothing);
  });
  f.sync_fixed = beside_rings(session, rings, {}, sync_calls, &fixed_goal, [&] {
    return measure_empty(session, "sync, empty, as fc::fn", batches, fn<offloaded::nothing>);
  });
  f.sync_2d = beside_rings(session, rings, sums_records, sync_calls, &sums_goal,
                           [&] { return measure_sums(session, batches, offloaded::add); });

  const std::vector<std::byte> bytes(payloads.back(), std::byte{1});
  for (const std::size_t size : sizes_of(options)) {
    // Large payloads take longer, so make fewer calls per batch.
    const std::size_t calls = size <= 1024 ? sync_calls : sync_calls / 10;
    const std::span<const std::byte> payload{bytes.data(), size};
    const call_records records{static_cast<std::uint32_t>(packed_size(payload)),
                               sizeof(std::uint64_t)};
    const bool is_short = size <= max_payload_goal;
    f.payload.emplace_back(
        size, beside_rings(session, is_short ? rings : nullptr, records, calls, &payload_goal, [&] {
          return session.measure(fmt::format("sync, {} as argument", format_bytes(size)), batches,
                                 calls, [&] {
                                   const std::uint64_t expected = size == 0 ? 0 : 2;
                                   for (std::size_t i = 0; i < calls; ++i) {
                                     require(sync(target, offloaded::ends_of, payload) == expected,
                                             "ends of the payload");
                                   }
                                 });
        }));
  }

  f.async = measure_windows(session, options, rings, offloaded::add);
  f.map = measure_map(session, batches);
  f.post = measure_posts(session, batches, offloaded::nothing);
  if (rings != nullptr) {
    f.variants = measure_variants(session, batches);
    for (figure* each : {&f.variants->ready_future, &f.variants->reply})
      each->goal = max_handler_ratio * f.sync_empty.ns.p50;
  }
  return f;
}

} // namespace

figure measure_map(bench_session& session, std::size_t batches) {
  constexpr std::size_t window = 1024;
  constexpr std::size_t calls = pipelined_calls(window);
  std::vector<double> values(window);
  std::iota(values.begin(), values.end(), 1.0);
  return session.measure(fmt::format("map, {} doubles, as many back", window), batches, calls, [&] {
    for (std::size_t done = 0; done < calls; done += window) {
      const auto got = map(session.target(), fn<offloaded::halved>, values).get();
      require(got.size() == window && got.back() == static_cast<double>(window) / 2,
              "results of a map");
    }
  });
}

namespace {

json to_json(const offload_figures& f, const bench_session& session) {
  json payload;
  for (const auto& [size, fig] : f.payload)
    payload[fmt::format("{}", size)] = engine_json(fig);
  json medians;
  json spread;
  for (const auto& [depth, fig] : f.async) {
    medians[fmt::format("{}", depth)] = rounded(fig.ns.p50);
    spread[fmt::format("{}", depth)] = engine_json(fig);
  }
  json document = {
      {"floor_ns", percentiles_json(session.floor())},
      {"sync_empty_ns", engine_json(f.sync_empty)},
      {"sync_empty_fn_ns", engine_json(f.sync_fixed)},
      {"sync_2d_ns", engine_json(f.sync_2d)},
      {"sync_payload_ns", payload},
      {"async_ns_per_op", medians},
      {"async_ns_per_op_percentiles", spread},
      {"post_ns_per_op", rounded(f.post.ns.p50)},
      {"post_ns_per_op_percentiles", figure_json(f.post)},
  };
  if (f.map) document["map_ns_per_op"] = figure_json(*f.map);
  if (f.variants) document["variants_ns"] = variants_json(*f.variants, f.sync_empty);
  if (!f.launches.empty()) {
    json launches;
    for (const figure& fig : f.launches)
      launches[fig.what] = figure_json(fig);
    document["launch_ns"] = launches;
  }
  if (!f.left_out.empty()) document["left_out"] = f.left_out;
  document["env"] = session.circumstances();
  return document;
}

std::string to_table(const offload_figures& f) {
  const bool has_rings = f.sync_empty.ring_only.has_value();
  std::vector<table::column> columns{
      {"per call", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"floor"}, {"to floor"}};
  if (has_rings) {
    for (const char* each : {"ring only", "engine", "goal"})
      columns.push_back({each});
  }
  table out{std::move(columns)};
  const auto add = [&](const figure& fig) {
    std::vector<std::string> row{fig.what};
    for (std::string& cell : figure_cells(fig))
      row.push_back(std::move(cell));
    if (has_rings) {
      for (std::string& cell : engine_cells(fig))
        row.push_back(std::move(cell));
    }
    out.add_row(std::move(row));
  };
  add(f.sync_empty);
  add(f.sync_fixed);
  add(f.sync_2d);
  for (const auto& [size, fig] : f.payload)
    add(fig);
  for (const auto& [depth, fig] : f.async)
    add(fig);
  if (f.map) add(*f.map);
  add(f.post);
  if (f.variants) {
    const call_variants& v = *f.variants;
    for (const figure* each : {&v.ready_future, &v.reply, &v.one_lane, &v.idle_lanes})
      add(*each);
  }
  for (const figure& fig : f.launches)
    add(fig);
  std::string text = out.text();
  if (f.variants) text += variants_text(*f.variants, f.sync_empty);
  if (!f.left_out.empty()) text += "left out: " + f.left_out + '\n';
  return text;
}

chart_series series_of(const std::string& name,
                       const std::vector<std::pair<std::size_t, figure>>& figures) {
  chart_series s{name, {}, series_role::figure};
  for (const auto& [x, fig] : figures)
    s.points.push_back(point_of(x, fig));
  return s;
}

/// Returns the series of the records alone; empty if calls go through no rings.
chart_series rings_of(const std::vector<std::pair<std::size_t, figure>>& figures) {
  chart_series s{"its records alone", {}, series_role::figure};
  for (const auto& [x, fig] : figures) {
    if (fig.ring_only) s.points.push_back({static_cast<double>(x), *fig.ring_only, fig.floor.p50});
  }
  return s;
}

report to_report(const offload_figures& f, const bench_session& session) {
  const auto rows = [](const auto& title, std::initializer_list<const figure*> figures) {
    row_chart c{title, "", {"time of a call"}, {}};
    for (const figure* each : figures) {
      if (each != nullptr) c.rows.push_back(row_of(*each));
    }
    return c;
  };
  const auto lines = [&](const char* title, axis x, const char* name, const auto& figures) {
    line_chart c{title, "", std::move(x), {"time of a call"}, {series_of(name, figures)}};
    if (chart_series rings = rings_of(figures); !rings.points.empty())
      c.series.push_back(std::move(rings));
    c.series.push_back(session.floor_beside(c.series));
    return c;
  };
  std::vector<chart> charts{rows("Calls to one target", {&f.sync_empty, &f.sync_fixed, &f.sync_2d,
                                                         f.map ? &*f.map : nullptr, &f.post}),
                            lines("Synchronous calls against the size of their argument",
                                  {"bytes of the argument", unit::bytes, scale::log2},
                                  "sync, eight bytes back", f.payload),
                            lines("Pipelined calls against the number under way",
                                  {"calls under way", unit::count, scale::log2},
                                  "async, two doubles in, one out", f.async)};
  if (f.variants) {
    const call_variants& v = *f.variants;
    charts.emplace_back(rows("Empty calls of other kinds", {&f.sync_empty, &v.ready_future,
                                                            &v.reply, &v.one_lane, &v.idle_lanes}));
  }
  if (!f.launches.empty()) {
    row_chart launches{"Launches without resident workers", "", {"time of a launch"}, {}};
    for (const figure& fig : f.launches)
      launches.rows.push_back(row_of(fig));
    charts.emplace_back(std::move(launches));
  }
  std::vector<std::string> left_out;
  if (!f.left_out.empty()) left_out.push_back(f.left_out);
  return session.make_report("offload", "Time of calls to a target, with the floor of its link.",
                             std::move(charts), std::move(left_out));
}

int run_offload(const bench_options& options) {
  const link_kind kind = kind_of(options);
  const bool on_device = kind == link_kind::emulated || kind == link_kind::gpu;
  constexpr std::size_t short_calls = 3; // sync_empty, sync_fixed, sync_2d
  const std::size_t sizes = sizes_of(options).size();
  const std::size_t depths = windows_of(options).size();
  std::size_t steps =
      on_device ? device_figures(kind) + depths : short_calls + sizes + depths + 2; // map and post
  std::optional<ring_only> rings; // before the session, since it forks
  if (kind == link_kind::shm) {
    rings.emplace(cores_of(options), options.batches_or(200, 20));
    steps += variant_figures + short_calls + depths +
             static_cast<std::size_t>(std::ranges::count_if(
                 sizes_of(options), [](std::size_t size) { return size <= max_payload_goal; }));
  }
  bench_session session{options, "offload", steps};
  const offload_figures figures =
      on_device ? measure_device(session, options)
                : measure_process(session, options, rings ? &*rings : nullptr);
  session.bar().finish();
  if (options.json) {
    print_json(to_json(figures, session));
  } else {
    print(session.heading() + '\n' + to_table(figures));
  }
  options.draw([&] { return to_report(figures, session); });
  return 0;
}

} // namespace

command command_offload() {
  auto options = std::make_shared<bench_options>();
  options->takes_devices = true;
  return benchmark(
      "offload",
      "Calls to one target: synchronous, with payloads, pipelined with futures, fire and forget",
      link_options(*options), options, run_offload);
}

} // namespace farcall::tool
