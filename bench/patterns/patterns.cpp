// SPDX-License-Identifier: Apache-2.0
#include "patterns.hpp"

#include <bench/commands.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>
#ifdef FARCALL_TOOL_HAS_VEO
#include <bench/veo/helper.hpp>
#endif

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

// Numbers of calls in the four tests of AVEO's call_latency, in its order.
constexpr std::array<std::size_t, 13> counts{1,    5,      10,     50,      100,     500,    1000,
                                             5000, 10'000, 50'000, 100'000, 200'000, 300'000};
constexpr std::array<const char*, 4> pattern_names{
    "N calls, then N results",
    "one call and its result, N times",
    "N calls, only the last result",
    "N synchronous calls",
};
/// Published microseconds per call on a VE10B card, in the same layout for comparison: tests 1 to 3
/// of VEO 2.3.0, tests 1 to 4 of AVEO 0.9.6.
struct published_row {
  std::size_t calls;
  std::array<double, 3> veo;
  std::array<double, 4> aveo;
};
constexpr std::array<published_row, 13> all_published{{
    {1, {108.00, 104.00, 104.00}, {23.00, 10.00, 10.00, 7.00}},
    {5, {97.00, 102.80, 95.80}, {9.00, 9.80, 6.60, 6.60}},
    {10, {96.70, 102.20, 95.00}, {7.50, 10.10, 6.10, 6.70}},
    {50, {95.62, 103.76, 96.78}, {5.98, 9.88, 5.64, 6.68}},
    {100, {96.66, 104.57, 96.27}, {5.78, 10.19, 5.62, 6.71}},
    {500, {96.63, 102.97, 92.96}, {5.60, 9.88, 5.57, 6.66}},
    {1000, {96.86, 101.53, 88.50}, {5.61, 10.15, 5.60, 6.72}},
    {5000, {93.47, 94.56, 87.56}, {5.63, 9.96, 5.63, 6.72}},
    {10'000, {91.03, 94.27, 87.37}, {5.63, 10.04, 5.65, 6.73}},
    {50'000, {88.69, 95.95, 109.34}, {5.62, 10.00, 5.64, 6.72}},
    {100'000, {87.48, 94.94, 218.85}, {5.69, 10.14, 5.68, 6.75}},
    {200'000, {88.27, 94.82, 333.62}, {5.70, 10.11, 5.70, 6.71}},
    {300'000, {87.07, 94.36, 661.19}, {5.77, 10.20, 5.74, 6.74}},
}};

} // namespace

void check_last(std::uint64_t last, std::size_t calls) {
  if (last != calls)
    throw failed_run(fmt::format("wrong result: call {} of {} returned {}", calls, calls, last));
}

namespace {

/// Returns the tests with farcall's C++ interface.
call_tests own_tests(const node& target, std::size_t largest) {
  auto futures = std::make_shared<std::vector<future<std::uint64_t>>>(largest);
  return {[target, futures](std::size_t n) {
            for (std::size_t i = 0; i < n; ++i)
              (*futures)[i] = async(target, offloaded::successor, std::uint64_t{i});
            std::uint64_t last = 0;
            for (std::size_t i = 0; i < n; ++i)
              last = (*futures)[i].get();
            check_last(last, n);
          },
          [target](std::size_t n) {
            std::uint64_t last = 0;
            for (std::size_t i = 0; i < n; ++i)
              last = async(target, offloaded::successor, last).get();
            check_last(last, n);
          },
          [target](std::size_t n) {
            future<std::uint64_t> last;
            for (std::size_t i = 0; i < n; ++i)
              last = async(target, offloaded::successor, std::uint64_t{i});
            check_last(last.get(), n);
          },
          [target](std::size_t n) {
            std::uint64_t last = 0;
            for (std::size_t i = 0; i < n; ++i)
              last = sync(target, offloaded::successor, last);
            check_last(last, n);
          }};
}

struct pattern_row {
  std::size_t calls = 0;
  std::array<figure, 4> figures;
};

pattern_row measure_row(bench_session& session, std::size_t n, std::size_t batches,
                        const call_tests& tests) {
  pattern_row row{n, {}};
  for (std::size_t t = 0; t < tests.size(); ++t) {
    row.figures[t] = session.measure(fmt::format("N = {}: {}", n, pattern_names[t]), batches, n,
                                     [&] { tests[t](n); });
  }
  return row;
}

double microseconds(double ns) { return ns / 1000.0; }

json to_json(const std::vector<pattern_row>& rows, const bench_session& session) {
  json patterns = json::array();
  for (const pattern_row& row : rows) {
    json document{{"calls", row.calls}};
    for (std::size_t p = 0; p < row.figures.size(); ++p) {
      document[fmt::format("t{}_us", p + 1)] =
          percentiles_json(converted(row.figures[p].ns, microseconds), 5);
      document[fmt::format("t{}_ratio", p + 1)] = rounded(row.figures[p].ratio());
    }
    patterns.push_back(std::move(document));
  }
  json published = json::array();
  for (const published_row& row : all_published) {
    published.push_back({{"calls", row.calls}, {"veo_us", row.veo}, {"aveo_us", row.aveo}});
  }
  return {{"floor_ns", percentiles_json(session.floor())},
          {"patterns", std::move(patterns)},
          {"published", std::move(published)},
          {"env", session.circumstances()}};
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
  table published{{{"published, on a card: N"},
                   {"VEO T1"},
                   {"T2"},
                   {"T3"},
                   {"AVEO T1"},
                   {"T2"},
                   {"T3"},
                   {"T4"}}};
  for (const published_row& row : all_published) {
    std::vector<std::string> cells{fmt::format("{}", row.calls)};
    for (const double us : row.veo)
      cells.push_back(fmt::format("{:.2f}", us));
    for (const double us : row.aveo)
      cells.push_back(fmt::format("{:.2f}", us));
    published.add_row(std::move(cells));
  }
  return text + '\n' + published.text();
}

report to_report(const std::vector<pattern_row>& rows, const bench_session& session) {
  line_chart c{"Four ways to make N calls",
               "",
               {"N, calls", unit::count, scale::log10},
               {"time of a call"},
               {}};
  for (std::size_t p = 0; p < pattern_names.size(); ++p) {
    chart_series s{fmt::format("T{}: {}", p + 1, pattern_names[p]), {}, series_role::figure};
    for (const pattern_row& row : rows)
      s.points.push_back(point_of(row.calls, row.figures[p]));
    c.series.push_back(std::move(s));
  }
  c.series.push_back(session.floor_beside(c.series));
  return session.make_report("patterns", "The four tests of AVEO's call_latency.", {std::move(c)});
}

struct patterns_options : bench_options {
  std::size_t largest = 0; ///< 0 for the default number of calls
  std::string api = "farcall";
};

int run_patterns(const patterns_options& options) {
  const std::size_t usual = options.quick ? 10'000 : counts.back();
  const std::size_t largest = options.largest != 0 ? options.largest : usual;
  std::vector<std::size_t> chosen;
  for (const std::size_t n : counts) {
    if (n <= largest) chosen.push_back(n);
  }
  bench_session session{options, "patterns", chosen.size() * pattern_names.size()};
  call_tests tests;
#ifdef FARCALL_TOOL_HAS_VEO
  std::optional<veo_helper> helper;
  if (options.api == "veo") {
    helper.emplace(session.cores().target, chosen.back());
    session.wait_for_process(helper->pid());
    // A helper's threads spin after its start, beside this thread.
    session.wait_for_idle_target();
    tests = helper->tests();
  }
#endif
  if (options.api == "farcall") tests = own_tests(session.target(), chosen.back());
  std::vector<pattern_row> rows;
  for (const std::size_t n : chosen) {
    // A single call is short, so its percentiles need more batches; the long tests contain many
    // calls.
    const std::size_t batches = options.batches_or(n <= 1000 ? 200 : 20, 20);
    rows.push_back(measure_row(session, n, batches, tests));
  }
  session.bar().finish();
  if (options.json) {
    print_json(to_json(rows, session));
  } else {
    print(session.heading() + '\n' + to_table(rows, session));
  }
  options.draw([&] { return to_report(rows, session); });
  return 0;
}

} // namespace

command command_patterns() {
  auto options = std::make_shared<patterns_options>();
  patterns_options& o = *options;
  std::vector<option> all = link_options(o);
  all.push_back({.name = "--max-calls",
                 .value = &o.largest,
                 .text = "Largest N (default: 300000, quick: 10000)",
                 .range = {{1, counts.back()}}});
#ifdef FARCALL_TOOL_HAS_VEO
  all.push_back({.name = "--api",
                 .value = &o.api,
                 .text = "Interface of the calls: farcall, or veo, the C interface of libveo",
                 .choices = {"farcall", "veo"}});
#endif
  return benchmark("patterns", "AVEO's four call tests, N = 1 to 300,000, microseconds per call",
                   std::move(all), options, run_patterns);
}

} // namespace farcall::tool
