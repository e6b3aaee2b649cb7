// SPDX-License-Identifier: Apache-2.0
#include <bench/commands.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/link.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <farcall/trace/recorder.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Calls of a batch: their events fit into the threads' rings.
constexpr std::size_t batch_calls = 2000;
/// Pause after a batch, in which its events are taken from the rings.
constexpr std::chrono::milliseconds rest{12};
constexpr std::size_t batch_events = 10'000;

enum class traced : bool { no, yes };

struct trace_result {
  summary off; ///< an empty call without tracing
  summary on;
  summary event; ///< one recorded event
  [[nodiscard]] double ratio() const { return on.p50 / off.p50; }
};

/// Measures the batches of one job.
void measure_job(job_options options, int cpu, traced is_traced, std::size_t batches,
                 std::vector<double>& samples) {
  // Events written there are discarded.
  if (is_traced == traced::yes) options.trace = "/dev/null";
  const job j{options};
  // After the job's start: its threads stay unpinned.
  const scoped_pin pin{cpu};
  const node& target = j.targets().front();
  const std::vector<double> measured = time_batches(batches, batch_calls, 2, [&] {
    for (std::size_t i = 0; i < batch_calls; ++i)
      sync(target, offloaded::nothing);
  });
  samples.insert(samples.end(), measured.begin(), measured.end());
}

summary measure_events(std::size_t batches) {
  trace::recorder& recorder = trace::recorder::make();
  std::vector<double> samples;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const stopwatch watch;
    for (std::size_t i = 0; i < batch_events; ++i)
      recorder.record(trace::event_kind::post, 1, i, 0, 0, 0);
    samples.push_back(watch.nanoseconds() / batch_events);
    (void)recorder.take(batch_events);
  }
  recorder.stop();
  recorder.clear();
  return summarize(std::move(samples));
}

trace_result measure_all(const bench_options& options, const link_session& session, progress& bar) {
  trace_result result;
  bar.begin_step("events");
  result.event = measure_events(options.batches_or(200, 20));
  // Alternate, so that changes of the machine affect both alike.
  const std::size_t rounds = options.quick ? 3 : 12;
  std::array<std::vector<double>, 2> samples;
  for (std::size_t round = 0; round < rounds; ++round) {
    bar.begin_step(fmt::format("empty sync calls, round {} of {}", round + 1, rounds));
    for (const traced is_traced : {traced::no, traced::yes}) {
      measure_job(session.link().targets(1), session.floor().cores().host, is_traced,
                  options.batches_or(20, 8), samples[static_cast<std::size_t>(is_traced)]);
      std::this_thread::sleep_for(rest);
    }
  }
  result.off = summarize(std::move(samples[0]));
  result.on = summarize(std::move(samples[1]));
  return result;
}

json to_json(const trace_result& r, const link_session& session) {
  return {{"floor_ns", percentiles_json(session.floor().pooled())},
          {"off_ns", percentiles_json(r.off)},
          {"on_ns", percentiles_json(r.on)},
          {"ratio", rounded(r.ratio())},
          {"event_ns", percentiles_json(r.event)},
          {"env", session.circumstances()}};
}

std::string to_table(const trace_result& r) {
  table out{{{"timeline", table::align::left}, {"p1"}, {"p50"}, {"p99"}}};
  const auto add = [&](const std::string& what, const summary& s) {
    std::vector<std::string> row{what};
    for (std::string& cell : percentile_cells(s, format_time))
      row.push_back(std::move(cell));
    out.add_row(std::move(row));
  };
  add("sync, empty, not traced", r.off);
  add("sync, empty, traced", r.on);
  add("an event", r.event);
  return out.text() + fmt::format("\ntraced to not traced: {}\n", format_ratio(r.ratio()));
}

report to_report(const trace_result& r, const link_session& session) {
  const summary floor = session.floor().pooled();
  row_chart c{"An empty call while its job is traced",
              fmt::format("In turn. Tracing makes it {} as long; an event takes {}.",
                          format_ratio(r.ratio()), format_time(r.event.p50)),
              {"time of a call"},
              {{"not traced", r.off, floor, ""}, {"traced", r.on, floor, ""}}};
  return session.make_report("trace", "Cost of a timeline.", {std::move(c)});
}

int run_trace(const bench_options& options) {
  link_session session{options, "trace", options.quick ? 4U : 13U};
  const trace_result result = measure_all(options, session, session.bar());
  session.finish();
  if (options.json) {
    print_json(to_json(result, session));
  } else {
    print(session.heading() + to_table(result));
  }
  options.draw([&] { return to_report(result, session); });
  return 0;
}

} // namespace

command command_trace() {
  auto options = std::make_shared<bench_options>();
  return benchmark("trace",
                   "Time of an empty sync call in a traced job, and in one without tracing",
                   link_options(*options), options, run_trace);
}

} // namespace farcall::tool
