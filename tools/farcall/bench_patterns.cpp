#include "bench.hpp"
#include "bench_functions.hpp"
#include "bench_session.hpp"
#include "table.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace farcall::tool {

namespace {

// The four tests of AVEO's call_latency, in its order and with its numbers of calls.
constexpr std::array<std::size_t, 7> counts{1, 10, 100, 1000, 10'000, 100'000, 300'000};
constexpr std::array<const char*, 4> pattern_names{
    "N calls, then N results",
    "one call and its result, N times",
    "N calls, only the last result",
    "N synchronous calls",
};
/// What AVEO 0.9.6 published for a VE10B card, microseconds per call, for comparison in the same
/// layout.
struct published_row {
  std::size_t calls;
  std::array<double, 4> us;
};
constexpr std::array<published_row, 4> aveo_published{{
    {1, {23, 10, 10, 7}},
    {100, {5.78, 10.19, 5.62, 6.71}},
    {10'000, {5.63, 10.04, 5.65, 6.73}},
    {300'000, {5.77, 10.20, 5.74, 6.74}},
}};

void check_last(std::uint64_t last, std::size_t calls) {
  if (last != calls)
    throw failed_run(fmt::format("wrong result: call {} of {} answered {}", calls, calls, last));
}

void calls_then_results(const node& target, std::vector<future<std::uint64_t>>& futures,
                        std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    futures[i] = async(target, offloaded::successor, std::uint64_t{i});
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < n; ++i)
    last = futures[i].get();
  check_last(last, n);
}

void call_and_result(const node& target, std::size_t n) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < n; ++i)
    last = async(target, offloaded::successor, last).get();
  check_last(last, n);
}

void only_the_last_result(const node& target, std::size_t n) {
  future<std::uint64_t> last;
  for (std::size_t i = 0; i < n; ++i)
    last = async(target, offloaded::successor, std::uint64_t{i});
  check_last(last.get(), n);
}

void synchronous_calls(const node& target, std::size_t n) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < n; ++i)
    last = sync(target, offloaded::successor, last);
  check_last(last, n);
}

struct pattern_row {
  std::size_t calls = 0;
  std::array<figure, 4> figures;
};

pattern_row measure_row(bench_session& session, std::size_t n, std::size_t batches,
                        std::vector<future<std::uint64_t>>& futures) {
  const node& target = session.target();
  const std::array<std::function<void()>, 4> patterns{
      [&] { calls_then_results(target, futures, n); },
      [&] { call_and_result(target, n); },
      [&] { only_the_last_result(target, n); },
      [&] { synchronous_calls(target, n); },
  };
  pattern_row row{n, {}};
  for (std::size_t p = 0; p < patterns.size(); ++p) {
    row.figures[p] =
        session.measure(fmt::format("N = {}: {}", n, pattern_names[p]), batches, n, patterns[p]);
  }
  return row;
}

double microseconds(double ns) { return ns / 1000.0; }

nlohmann::ordered_json to_json(const std::vector<pattern_row>& rows, const bench_session& session) {
  nlohmann::ordered_json patterns = nlohmann::ordered_json::array();
  for (const pattern_row& row : rows) {
    nlohmann::ordered_json json{{"calls", row.calls}};
    for (std::size_t p = 0; p < row.figures.size(); ++p) {
      json[fmt::format("t{}_us", p + 1)] =
          percentiles_json(converted(row.figures[p].ns, microseconds), 5);
      json[fmt::format("t{}_ratio", p + 1)] = rounded(row.figures[p].ratio());
    }
    patterns.push_back(std::move(json));
  }
  nlohmann::ordered_json published = nlohmann::ordered_json::array();
  for (const published_row& row : aveo_published) {
    published.push_back({{"calls", row.calls},
                         {"t1_us", row.us[0]},
                         {"t2_us", row.us[1]},
                         {"t3_us", row.us[2]},
                         {"t4_us", row.us[3]}});
  }
  return {{"floor_ns", percentiles_json(session.floor())},
          {"patterns", std::move(patterns)},
          {"aveo_published", std::move(published)},
          {"env", environment_json(session.env(), session.cores())}};
}

std::string spread_cell(const summary& ns) {
  const summary us = converted(ns, microseconds);
  return fmt::format("{:.3f} ({:.3f}-{:.3f})", us.p50, us.p1, us.p99);
}

std::string to_table(const std::vector<pattern_row>& rows, const bench_session& session) {
  std::string text = "microseconds per call: p50 (p1-p99)\n";
  for (std::size_t p = 0; p < pattern_names.size(); ++p)
    text += fmt::format("T{}: {}\n", p + 1, pattern_names[p]);
  table out{{{"N"}, {"T1"}, {"T2"}, {"T3"}, {"T4"}, {"floor"}}};
  for (const pattern_row& row : rows) {
    std::vector<std::string> cells{fmt::format("{}", row.calls)};
    for (const figure& f : row.figures)
      cells.push_back(spread_cell(f.ns));
    cells.push_back(fmt::format("{:.3f}", microseconds(row.figures[0].floor.p50)));
    out.add_row(std::move(cells));
  }
  text += '\n' + out.text();
  table ratios{{{"to the floor: N"}, {"T1"}, {"T2"}, {"T3"}, {"T4"}}};
  for (const pattern_row& row : rows) {
    std::vector<std::string> cells{fmt::format("{}", row.calls)};
    for (const figure& f : row.figures)
      cells.push_back(format_ratio(f.ratio()));
    ratios.add_row(std::move(cells));
  }
  text += fmt::format("\nfloor of the whole run: {} ({}-{})\n", format_time(session.floor().p50),
                      format_time(session.floor().p1), format_time(session.floor().p99));
  text += '\n' + ratios.text();
  table published{{{"AVEO 0.9.6 on its card, published: N"}, {"T1"}, {"T2"}, {"T3"}, {"T4"}}};
  for (const published_row& row : aveo_published) {
    std::vector<std::string> cells{fmt::format("{}", row.calls)};
    for (const double us : row.us)
      cells.push_back(fmt::format("{:.2f}", us));
    published.add_row(std::move(cells));
  }
  return text + '\n' + published.text();
}

int run_patterns(const bench_options& options, std::size_t largest) {
  std::vector<std::size_t> chosen;
  for (const std::size_t n : counts) {
    if (n <= largest) chosen.push_back(n);
  }
  bench_session session{options, "patterns", chosen.size() * pattern_names.size()};
  std::vector<future<std::uint64_t>> futures(chosen.back());
  std::vector<pattern_row> rows;
  for (const std::size_t n : chosen) {
    // A single call is short, so its percentiles need more of them; the long ones are many calls
    // each.
    const std::size_t batches = options.batches_or(n <= 1000 ? 200 : 20, 20);
    rows.push_back(measure_row(session, n, batches, futures));
  }
  session.bar().finish();
  if (options.json) {
    print_json(to_json(rows, session));
  } else {
    print(environment_text(session.env(), session.cores()) + '\n' + to_table(rows, session));
  }
  return 0;
}

} // namespace

void add_bench_patterns(CLI::App& bench, action& chosen) {
  auto options = std::make_shared<bench_options>();
  auto largest = std::make_shared<std::size_t>(0);
  CLI::App* app = bench.add_subcommand(
      "patterns", "AVEO's four call tests, N = 1 to 300,000, microseconds per call");
  add_shared_options(*app, *options);
  app->add_option("--max-calls", *largest, "Largest N (default: 300000, quick: 10000)")
      ->check(CLI::Range(std::size_t{1}, counts.back()));
  app->callback([options, largest, &chosen] {
    chosen = [options, largest] {
      const std::size_t usual = options->quick ? 10'000 : counts.back();
      return run_patterns(*options, *largest != 0 ? *largest : usual);
    };
  });
}

} // namespace farcall::tool
