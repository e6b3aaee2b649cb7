// SPDX-License-Identifier: Apache-2.0
#include "offload.hpp"
#include "shares.hpp"

#include <bench/commands.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/ring_only.hpp>
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

/// `rings` is null unless calls go through shared memory.
offload_figures measure_process(bench_session& session, const bench_options& options,
                                ring_only* rings) {
  const std::size_t batches = options.batches_or(200, 20);
  const node& target = session.target();
  offload_figures f;
  if (rings != nullptr) {
    f.ring_only = session.measure(fmt::format("ring only: {} there, {} back",
                                              format_bytes(empty_request_bytes),
                                              format_bytes(empty_reply_bytes)),
                                  *rings);
  }
  f.sync_empty = measure_empty(session, "sync, empty", batches, offloaded::nothing);
  f.sync_fixed = measure_empty(session, "sync, empty, as fc::fn", batches, fn<offloaded::nothing>);
  f.sync_2d = measure_sums(session, batches, offloaded::add);

  const std::vector<std::byte> bytes(payloads.back(), std::byte{1});
  const auto sizes = options.quick ? std::span<const std::size_t>{quick_payloads}
                                   : std::span<const std::size_t>{payloads};
  for (const std::size_t size : sizes) {
    // Large payloads take longer, so make fewer calls per batch.
    const std::size_t calls = size <= 1024 ? sync_calls : sync_calls / 10;
    const std::span<const std::byte> payload{bytes.data(), size};
    f.payload.emplace_back(
        size, session.measure(fmt::format("sync, {} as argument", format_bytes(size)), batches,
                              calls, [&] {
                                const std::uint64_t expected = size == 0 ? 0 : 2;
                                for (std::size_t i = 0; i < calls; ++i) {
                                  require(sync(target, offloaded::ends_of, payload) == expected,
                                          "ends of the payload");
                                }
                              }));
  }

  f.async = measure_windows(session, options, offloaded::add);
  f.map = measure_map(session, batches);
  f.post = measure_posts(session, batches, offloaded::nothing);
  if (rings != nullptr) f.variants = measure_variants(session, batches);
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
    payload[fmt::format("{}", size)] = figure_json(fig);
  json medians;
  json spread;
  for (const auto& [depth, fig] : f.async) {
    medians[fmt::format("{}", depth)] = rounded(fig.ns.p50);
    spread[fmt::format("{}", depth)] = figure_json(fig);
  }
  json document = {
      {"floor_ns", percentiles_json(session.floor())},
      {"sync_empty_ns", figure_json(f.sync_empty)},
      {"sync_empty_fn_ns", figure_json(f.sync_fixed)},
      {"sync_2d_ns", figure_json(f.sync_2d)},
      {"sync_payload_ns", payload},
      {"async_ns_per_op", medians},
      {"async_ns_per_op_percentiles", spread},
      {"post_ns_per_op", rounded(f.post.ns.p50)},
      {"post_ns_per_op_percentiles", figure_json(f.post)},
  };
  if (f.map) document["map_ns_per_op"] = figure_json(*f.map);
  if (f.ring_only) {
    document["ring_only_ns"] = figure_json(*f.ring_only);
    document["shares_ns"] = shares_json(shares_of(*f.ring_only, f.sync_empty, f.sync_2d));
  }
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
  table out{{{"per call", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"floor"}, {"to floor"}}};
  const auto add = [&](const figure& fig) {
    std::vector<std::string> row{fig.what};
    for (std::string& cell : figure_cells(fig))
      row.push_back(std::move(cell));
    out.add_row(std::move(row));
  };
  if (f.ring_only) add(*f.ring_only);
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
    for (const figure* each :
         {&v.ready_future, &v.reply, &v.one_lane, &v.idle_lanes, &v.eventfd, &v.wait_fd})
      add(*each);
  }
  for (const figure& fig : f.launches)
    add(fig);
  std::string text = out.text();
  if (f.ring_only) text += shares_text(shares_of(*f.ring_only, f.sync_empty, f.sync_2d));
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

report to_report(const offload_figures& f, const bench_session& session) {
  const auto rows = [](const auto& title, std::initializer_list<const figure*> figures) {
    row_chart c{title, "", {"time of a call"}, {}};
    for (const figure* each : figures) {
      if (each != nullptr) c.rows.push_back(row_of(*each));
    }
    return c;
  };
  const auto lines = [&](const char* title, axis x, chart_series s) {
    line_chart c{title, "", std::move(x), {"time of a call"}, {std::move(s)}};
    c.series.push_back(session.floor_beside(c.series));
    return c;
  };
  std::vector<chart> charts{
      rows("Calls to one target", {f.ring_only ? &*f.ring_only : nullptr, &f.sync_empty,
                                   &f.sync_fixed, &f.sync_2d, f.map ? &*f.map : nullptr, &f.post}),
      lines("Synchronous calls against the size of their argument",
            {"bytes of the argument", unit::bytes, scale::log2},
            series_of("sync, eight bytes back", f.payload)),
      lines("Pipelined calls against the number under way",
            {"calls under way", unit::count, scale::log2},
            series_of("async, two doubles in, one out", f.async))};
  if (f.variants) {
    const call_variants& v = *f.variants;
    charts.emplace_back(
        rows("Empty calls of other kinds", {&f.sync_empty, &v.ready_future, &v.reply, &v.one_lane,
                                            &v.idle_lanes, &v.eventfd, &v.wait_fd}));
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
  const std::size_t figures_besides = on_device       ? device_figures(kind)
                                      : options.quick ? 5 + quick_payloads.size()
                                                      : 5 + payloads.size();
  std::optional<ring_only> rings; // before the session, since it forks
  if (kind == link_kind::shm) {
    rings.emplace(cores_of(options), options.batches_or(200, 20), sync_calls);
  }
  bench_session session{options, "offload",
                        figures_besides + windows_of(options).size() +
                            (rings ? 1 + variant_figures : 0)};
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
