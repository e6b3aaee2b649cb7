// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <bench/commands.hpp>
#include <bench/report/copies.hpp>
#include <bench/runner/floor.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/ring_only.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Goal of a figure: a limit of its time, of the ratio to its floor, or of the difference or ratio
/// to its records alone.
struct reach {
  enum class kind : std::uint8_t { ratio, share, nanoseconds, beyond_rings, times_rings };
  kind of;
  double limit;

  /// Returns text such as "<= 1.25 x".
  [[nodiscard]] std::string text() const {
    switch (of) {
    case kind::ratio:
      return fmt::format("<= {:.2f} x", limit);
    case kind::share:
      return fmt::format(">= {:.2f}", limit);
    case kind::beyond_rings:
      return fmt::format("<= ring only + {:.0f} ns", limit);
    case kind::times_rings:
      return fmt::format("<= {:.2f} x ring only", limit);
    default:
      return fmt::format("<= {:.0f} ns", limit);
    }
  }
};

struct am2_figure {
  std::string key; ///< name in JSON
  figure times;
  reach goal;

  /// Returns the speed as a share of the floor's speed; for floors that are copies.
  [[nodiscard]] double share() const { return 1 / times.ratio(); }
  [[nodiscard]] bool is_reached() const {
    switch (goal.of) {
    case reach::kind::ratio:
      return times.ratio() <= goal.limit;
    case reach::kind::share:
      return share() >= goal.limit;
    case reach::kind::beyond_rings:
      return times.ns.p50 <= times.ring_only.value().p50 + goal.limit;
    case reach::kind::times_rings:
      return times.ns.p50 <= times.ring_only.value().p50 * goal.limit;
    default:
      return times.ns.p50 <= goal.limit;
    }
  }
};

struct point {
  std::size_t bytes = 0;
  summary ns;
  summary copy; ///< memcpy of as many bytes, in the same run
};

struct results {
  std::vector<am2_figure> figures;
  std::vector<point> latency;   ///< medium requests, short replies
  std::vector<point> bandwidth; ///< long requests, short replies
  summary floor;
  summary connection_floor;

  /// Returns the largest growth of the round trip from one size to the next, and the size where it
  /// is.
  [[nodiscard]] std::pair<double, std::size_t> max_step() const {
    std::pair<double, std::size_t> most{1, 0};
    for (std::size_t i = 1; i < latency.size(); ++i) {
      const double factor = latency[i].ns.p50 / latency[i - 1].ns.p50;
      if (factor > most.first) most = {factor, latency[i].bytes};
    }
    return most;
  }
};

/// Limit of the growth: each size is at most twice the one before it, so a curve without a step at
/// most doubles.
constexpr double max_growth = 2;

/// Returns the sizes of AMLAPI's curve, including sizes on both sides of its step.
std::vector<std::size_t> latency_sizes(bool quick) {
  if (quick) return {0, 8, 1024};
  return {0,    8,    16,   32,   64,   128,  192,  256,   384,   512,   768,   856,   864,  872,
          1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536};
}

std::vector<std::size_t> bandwidth_sizes(std::size_t largest) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 64; bytes <= largest; bytes *= 4)
    sizes.push_back(bytes);
  if (!sizes.empty() && sizes.back() != largest && largest >= 64) sizes.push_back(largest);
  return sizes;
}

struct am2_options : bench_options {
  std::size_t largest = std::size_t{64} << 20;
};

/// A run: measures the floors, and the program over shm and tcp.
class am2_run {
 public:
  explicit am2_run(const am2_options& options)
      : options_(options), cores_(options.cores()),
        meter_(cores_, options.quick ? min_batches : floor_places, 1000),
        connection_(cores_, options.quick ? min_batches : floor_places, far_floor_calls),
        rings_(cores_, options.quick ? min_batches : floor_places),
        bar_("am2", 12 + latency_sizes(options.quick).size() + bandwidth_sizes(largest()).size()),
        over_tcp_(std::make_unique<am2_peers>(link_kind::tcp, cores_)),
        over_shm_(std::make_unique<am2_peers>(link_kind::shm, cores_)) {}

  [[nodiscard]] results measure() {
    results r;
    using enum reach::kind;
    const auto add = [&](std::string key, figure f, reach goal) {
      r.figures.push_back({std::move(key), std::move(f), goal});
    };
    add("short_round_trip", beside_rings("short request and reply", "short", 0, 1000),
        {beyond_rings, 35});
    add("medium_8_round_trip", beside_rings("medium of 8 B and short reply", "medium", 8, 1000),
        {beyond_rings, 45});
    add("medium_1024_round_trip",
        beside_rings("medium of 1 KiB and short reply", "medium", 1024, 500), {times_rings, 1.2});
    add("short_pipelined",
        beside_floor("short requests and replies, pipelined", "pipelined", 0, 5000),
        {nanoseconds, 40});
    add("short_one_way", beside_floor("short requests, one way", "one_way", 0, 5000),
        {nanoseconds, 22});
    for (const std::size_t bytes : bandwidth_sizes(largest()))
      r.bandwidth.push_back(stream(bytes));
    for (const point& p : r.bandwidth) {
      if (p.bytes < 65536) continue;
      add(fmt::format("long_{}", p.bytes),
          {fmt::format("longs of {}, to memcpy", format_bytes(p.bytes)), p.ns, p.copy, {}, {}},
          {share, 0.9});
    }
    add("tcp_short_round_trip", over_connection(), {ratio, 1.2});
    for (const std::size_t bytes : latency_sizes(options_.quick))
      r.latency.push_back(round_trip(bytes));
    bar_.finish();
    r.floor = meter_.pooled();
    r.connection_floor = connection_.pooled();
    return r;
  }

  [[nodiscard]] core_pair cores() const { return cores_; }
  [[nodiscard]] std::string floor_texts() const {
    return floor_text(meter_) + floor_text(connection_);
  }

 private:
  [[nodiscard]] std::size_t largest() const {
    return options_.quick ? std::min<std::size_t>(options_.largest, 65536) : options_.largest;
  }
  [[nodiscard]] std::size_t batches() const { return options_.batches_or(200, min_batches); }

  [[nodiscard]] std::vector<double> floor_of(floor_probe& probe, const am2_peers& peers) {
    peers.wait_until_idle();
    return probe.measure();
  }

  /// Measures an operation between two measurements of the floor.
  figure beside(floor_probe& probe, am2_peers& peers, const std::string& what,
                std::string_view name, std::size_t bytes, std::size_t operations) {
    bar_.begin_step(what);
    std::vector<double> around = floor_of(probe, peers);
    std::vector<double> samples = peers.measure(name, bytes, batches(), operations);
    const std::vector<double> behind = floor_of(probe, peers);
    around.insert(around.end(), behind.begin(), behind.end());
    return {what, summarize(std::move(samples)), summarize(std::move(around)), {}, {}};
  }
  figure beside_floor(const std::string& what, std::string_view name, std::size_t bytes,
                      std::size_t operations) {
    return beside(meter_, *over_shm_, what, name, bytes, operations);
  }
  /// Measures the records of the messages alone before the messages.
  figure beside_rings(const std::string& what, std::string_view name, std::uint32_t bytes,
                      std::size_t operations) {
    over_shm_->wait_until_idle();
    // A message has 16 bytes before its payload, and requests and replies have records of the same
    // kind, whose header is eight bytes longer than the header of a reply in `call_records`.
    constexpr std::uint32_t head = 16;
    rings_.use({.argument_bytes = head + bytes, .result_bytes = head + 8}, operations);
    const summary alone = summarize(rings_.measure());
    figure f = beside_floor(what, name, bytes, operations);
    f.ring_only = alone;
    return f;
  }
  figure over_connection() {
    return beside(connection_, *over_tcp_, "short request and reply over TCP, to bare TCP", "short",
                  0, 200);
  }

  /// Measures long requests, with memcpy before and after them.
  point stream(std::size_t bytes) {
    bar_.begin_step(fmt::format("longs of {}", format_bytes(bytes)));
    constexpr std::size_t per_batch = std::size_t{4} << 20;
    const std::size_t operations = std::clamp<std::size_t>(per_batch / bytes, 1, 2000);
    const std::size_t n = bytes > per_batch ? std::min<std::size_t>(batches(), 20) : batches();
    std::vector<double> copies = over_shm_->measure("memcpy", bytes, n, operations);
    std::vector<double> longs = over_shm_->measure("long_stream", bytes, n, operations);
    const std::vector<double> behind = over_shm_->measure("memcpy", bytes, n, operations);
    copies.insert(copies.end(), behind.begin(), behind.end());
    return {bytes, summarize(std::move(longs)), summarize(std::move(copies))};
  }

  point round_trip(std::size_t bytes) {
    bar_.begin_step(fmt::format("round trip of {}", format_bytes(bytes)));
    const std::size_t operations = bytes > 8192 ? 50 : 200;
    const std::string_view name = bytes == 0 ? "short" : "medium";
    std::vector<double> trips = over_shm_->measure(name, bytes, batches(), operations);
    return {bytes, summarize(std::move(trips)), {}};
  }

  const am2_options& options_;
  core_pair cores_;
  floor_meter meter_; // this and the next members fork
  connection_floor connection_;
  ring_only rings_;
  progress bar_;
  std::unique_ptr<am2_peers> over_tcp_;
  std::unique_ptr<am2_peers> over_shm_;
};

double mebibytes_per_second(std::size_t bytes, double ns) {
  return static_cast<double>(bytes) / ns * 1e9 / (1024.0 * 1024.0);
}

json to_json(const results& r, const environment& env, core_pair cores) {
  json figures;
  for (const am2_figure& f : r.figures) {
    json document = figure_json(f.times);
    if (f.times.ring_only) document["ring_only"] = percentiles_json(*f.times.ring_only);
    if (f.goal.of == reach::kind::share) document["share_of_memcpy"] = rounded(f.share());
    document["reach"] = f.goal.text();
    document["is_reached"] = f.is_reached();
    figures[f.key] = std::move(document);
  }
  json latency = json::array();
  for (const point& p : r.latency)
    latency.push_back({{"bytes", p.bytes}, {"ns", percentiles_json(p.ns)}});
  json bandwidth = json::array();
  for (const point& p : r.bandwidth) {
    bandwidth.push_back(
        {{"bytes", p.bytes},
         {"ns", percentiles_json(p.ns)},
         {"mib_per_second", rounded(mebibytes_per_second(p.bytes, p.ns.p50))},
         {"memcpy_mib_per_second", rounded(mebibytes_per_second(p.bytes, p.copy.p50))}});
  }
  const auto [growth, at] = r.max_step();
  return {{"floor_ns", percentiles_json(r.floor)},
          {"connection_floor_ns", percentiles_json(r.connection_floor)},
          {"figures", std::move(figures)},
          {"latency", std::move(latency)},
          {"largest_step",
           {{"factor", rounded(growth)}, {"bytes", at}, {"is_reached", growth <= max_growth}}},
          {"bandwidth", std::move(bandwidth)},
          {"env", environment_json(env, cores)}};
}

std::string to_table(const results& r) {
  table figures{{{"figure", table::align::left},
                 {"p1"},
                 {"p50"},
                 {"p99"},
                 {"floor"},
                 {"to floor"},
                 {"ring only"},
                 {"reach", table::align::left}}};
  for (const am2_figure& f : r.figures) {
    std::vector<std::string> cells{f.times.what};
    for (std::string& cell : figure_cells(f.times))
      cells.push_back(std::move(cell));
    if (f.goal.of == reach::kind::share) cells.back() = fmt::format("{:.2f}", f.share());
    cells.push_back(f.times.ring_only ? format_time(f.times.ring_only->p50) : "");
    cells.push_back(f.goal.text() + (f.is_reached() ? "" : ": missed"));
    figures.add_row(std::move(cells));
  }
  table latency{{{"round trip of"}, {"p1"}, {"p50"}, {"p99"}}};
  for (const point& p : r.latency) {
    std::vector<std::string> cells{format_bytes(p.bytes)};
    for (std::string& cell : percentile_cells(p.ns, format_time))
      cells.push_back(std::move(cell));
    latency.add_row(std::move(cells));
  }
  table bandwidth{{{"longs of"}, {"MiB/s"}, {"memcpy"}}};
  for (const point& p : r.bandwidth) {
    bandwidth.add_row({format_bytes(p.bytes),
                       format_number(mebibytes_per_second(p.bytes, p.ns.p50)),
                       format_number(mebibytes_per_second(p.bytes, p.copy.p50))});
  }
  const auto [growth, at] = r.max_step();
  return figures.text() + "\nMedium requests with short replies:\n" + latency.text() +
         fmt::format("largest step: {} at {}; reach: none, at most {:.0f} x{}\n",
                     format_ratio(growth), format_bytes(at), max_growth,
                     growth <= max_growth ? "" : ": missed") +
         "\nLong requests with short replies, as many under way as there is space for:\n" +
         bandwidth.text();
}

report to_report(const results& r, const environment& env, const am2_run& run) {
  row_chart figures{"Requests and replies by the interface of AM-2",
                    "Floor: of longs memcpy, over TCP a bare connection, else one cache line each "
                    "way.",
                    {"time of a request"},
                    {}};
  for (const am2_figure& f : r.figures) {
    figures.rows.push_back(row_of(f.times));
    figures.rows.back().remark = "to reach: " + f.goal.text() + (f.is_reached() ? "" : ": missed");
  }
  line_chart latency{"Round trip against the size of the request",
                     "The reply is short.",
                     {"bytes of the request", unit::bytes, scale::log2},
                     {"round trip"},
                     {{"request of that size, short reply", {}, series_role::figure}}};
  for (const point& p : r.latency) {
    latency.series.front().points.push_back({static_cast<double>(p.bytes), p.ns, r.floor.p50});
  }
  latency.series.push_back(level_floor("floor: one cache line each way", r.floor, latency.series));
  chart_series longs{"long requests, several under way", {}, series_role::figure};
  chart_series copies{"floor: memcpy in one process", {}, series_role::floor};
  for (const point& p : r.bandwidth) {
    longs.points.push_back(bandwidth_point(p.bytes, p.ns, p.copy));
    copies.points.push_back(bandwidth_point(p.bytes, p.copy, nothing_measured()));
  }
  return {"farcall bench am2",
          "An AM-2 program of two processes over shared memory.",
          environment_text(env, run.cores()) + run.floor_texts(),
          {std::move(figures), std::move(latency),
           bandwidth_chart("Bandwidth against the size of long requests", "",
                           {std::move(longs), std::move(copies)})},
          {}};
}

int run_am2(const am2_options& options) {
  const environment env = read_environment();
  am2_run run(options);
  const results r = run.measure();
  if (options.json) {
    print_json(to_json(r, env, run.cores()));
  } else {
    print(environment_text(env, run.cores()) + '\n' + to_table(r));
  }
  options.draw([&] { return to_report(r, env, run); });
  return 0;
}

} // namespace

command command_am2() {
  auto options = std::make_shared<am2_options>();
  am2_options& o = *options;
  std::vector<option> all = shared_options(o);
  all.push_back({.name = "--max-bytes",
                 .value = &o.largest,
                 .text = "Largest long request (default: 64MiB, quick: 64KiB)",
                 .range = {{64, std::size_t{1} << 30}},
                 .is_size = true});
  return benchmark("am2", "Active messages by the interface of AM-2, with the goal of each figure",
                   std::move(all), options, run_am2);
}

} // namespace farcall::tool
