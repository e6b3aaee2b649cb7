#include "bench.hpp"
#include "bench_functions.hpp"
#include "bench_session.hpp"
#include "table.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace farcall::tool {

namespace {

constexpr std::array<std::size_t, 11> windows{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr std::array<std::size_t, 5> quick_windows{1, 16, 64, 256, 1024};
constexpr std::array<std::size_t, 10> payloads{0, 8, 32, 64, 256, 1024, 4096, 16384, 32768, 65536};
constexpr std::array<std::size_t, 5> quick_payloads{0, 64, 1024, 16384, 65536};
constexpr std::size_t sync_calls = 1000;
constexpr std::size_t post_calls = 4096;

/// Many times the window, so that filling and emptying it hardly count, and otherwise few, so that
/// a batch is short enough to often escape interruptions.
constexpr std::size_t pipelined_calls(std::size_t window) {
  return std::max<std::size_t>(1000, 16 * window);
}

void require(bool right, const char* what) {
  if (!right) throw failed_run(fmt::format("wrong result: {}", what));
}

/// Keeps `window` calls under way: waits for the oldest one before the next is made, and for the
/// rest at the end.
void pipeline(const node& target, std::vector<future<double>>& window, std::size_t calls) {
  double sum = 0;
  std::size_t slot = 0;
  for (std::size_t call = 0; call < calls; ++call) {
    future<double>& place = window[slot];
    if (place.valid()) sum += place.get();
    place = async(target, offloaded::add, static_cast<double>(call), 1.0);
    if (++slot == window.size()) slot = 0;
  }
  for (future<double>& place : window) {
    if (place.valid()) sum += place.get();
  }
  const auto n = static_cast<double>(calls);
  require(sum == n * (n + 1) / 2, "the answers of the pipelined calls do not add up");
}

struct offload_figures {
  figure sync_empty;
  figure sync_fixed; ///< the same, with the function fixed at compile time
  figure sync_2d;
  std::vector<std::pair<std::size_t, figure>> payload;
  std::vector<std::pair<std::size_t, figure>> async;
  figure post;
};

offload_figures measure_all(bench_session& session, const bench_options& options) {
  const std::size_t batches = options.batches_or(200, 20);
  const node& target = session.target();
  offload_figures f;
  f.sync_empty = session.measure("sync, empty", batches, sync_calls, [&] {
    for (std::size_t i = 0; i < sync_calls; ++i)
      sync(target, offloaded::nothing);
  });
  f.sync_fixed = session.measure("sync, empty, as fc::fn", batches, sync_calls, [&] {
    for (std::size_t i = 0; i < sync_calls; ++i)
      sync(target, fn<offloaded::nothing>);
  });
  f.sync_2d = session.measure("sync, two doubles in, one out", batches, sync_calls, [&] {
    for (std::size_t i = 0; i < sync_calls; ++i) {
      const auto x = static_cast<double>(i);
      require(sync(target, offloaded::add, x, 1.0) == x + 1.0, "sum of two doubles");
    }
  });

  const std::vector<std::byte> bytes(payloads.back(), std::byte{1});
  const auto sizes = options.quick ? std::span<const std::size_t>{quick_payloads}
                                   : std::span<const std::size_t>{payloads};
  for (const std::size_t size : sizes) {
    // Large payloads take longer each; the batches stay about as long.
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

  const auto depths = options.quick ? std::span<const std::size_t>{quick_windows}
                                    : std::span<const std::size_t>{windows};
  for (const std::size_t depth : depths) {
    std::vector<future<double>> window(depth);
    const std::size_t calls = pipelined_calls(depth);
    f.async.emplace_back(depth,
                         session.measure(fmt::format("async, window {}, double back", depth),
                                         batches, calls, [&] { pipeline(target, window, calls); }));
  }

  f.post = session.measure("post, and a sync after the last", batches, post_calls, [&] {
    for (std::size_t i = 1; i < post_calls; ++i)
      post(target, offloaded::nothing);
    // Calls of one thread to one node run in order, so this answer says that all of them have run.
    sync(target, offloaded::nothing);
  });
  return f;
}

nlohmann::ordered_json to_json(const offload_figures& f, const bench_session& session) {
  nlohmann::ordered_json payload;
  for (const auto& [size, fig] : f.payload)
    payload[fmt::format("{}", size)] = figure_json(fig);
  nlohmann::ordered_json medians;
  nlohmann::ordered_json spread;
  for (const auto& [depth, fig] : f.async) {
    medians[fmt::format("{}", depth)] = rounded(fig.ns.p50);
    spread[fmt::format("{}", depth)] = figure_json(fig);
  }
  return {
      {"floor_ns", percentiles_json(session.floor())},
      {"sync_empty_ns", figure_json(f.sync_empty)},
      {"sync_empty_fn_ns", figure_json(f.sync_fixed)},
      {"sync_2d_ns", figure_json(f.sync_2d)},
      {"sync_payload_ns", payload},
      {"async_ns_per_op", medians},
      {"async_ns_per_op_percentiles", spread},
      {"post_ns_per_op", rounded(f.post.ns.p50)},
      {"post_ns_per_op_percentiles", figure_json(f.post)},
      {"env", session.circumstances()},
  };
}

std::string to_table(const offload_figures& f) {
  table out{{{"per call", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"floor"}, {"to floor"}}};
  const auto add = [&](const figure& fig) {
    std::vector<std::string> row{fig.what};
    for (std::string& cell : figure_cells(fig))
      row.push_back(std::move(cell));
    out.add_row(std::move(row));
  };
  add(f.sync_empty);
  add(f.sync_fixed);
  add(f.sync_2d);
  for (const auto& [size, fig] : f.payload)
    add(fig);
  for (const auto& [depth, fig] : f.async)
    add(fig);
  add(f.post);
  return out.text();
}

int run_offload(const bench_options& options) {
  const std::size_t steps = 3 + (options.quick ? quick_payloads.size() + quick_windows.size()
                                               : payloads.size() + windows.size());
  bench_session session{options, "offload", steps};
  const offload_figures figures = measure_all(session, options);
  session.bar().finish();
  if (options.json) {
    print_json(to_json(figures, session));
  } else {
    print(session.heading() + '\n' + to_table(figures));
  }
  return 0;
}

} // namespace

void add_bench_offload(CLI::App& bench, action& chosen) {
  auto options = std::make_shared<bench_options>();
  CLI::App* app = bench.add_subcommand(
      "offload",
      "Calls to one target: synchronous, with payloads, pipelined with futures, fire and forget");
  add_shared_options(*app, *options);
  add_link_options(*app, *options);
  app->callback([options, &chosen] { chosen = [options] { return run_offload(*options); }; });
}

} // namespace farcall::tool
