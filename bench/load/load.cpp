// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/library_thread.hpp>

#include <bench/bandwidth/bandwidth.hpp>
#include <bench/commands.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/link.hpp>
#include <bench/runner/local_memory.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Limit of samples kept from a measurement; the first ones are kept.
constexpr std::size_t max_samples = 4'000'000;
/// Puts in flight, so that there is always one.
constexpr std::size_t puts_at_a_time = 2;

struct load_result {
  summary quiet;
  summary loaded;
  std::size_t bytes = 0;  ///< bytes put in total
  std::size_t buffer = 0; ///< bytes of each put
  double put_seconds = 0;
  [[nodiscard]] double ratio() const { return loaded.p99 / quiet.p99; }
};

/// Returns the time of one call, without batches, which would hide the few slow calls.
double time_call(const node& target) {
  const stopwatch watch;
  sync(target, offloaded::nothing);
  return watch.nanoseconds();
}

summary measure_quiet(const node& target, std::size_t calls) {
  std::vector<double> samples(calls);
  for (std::size_t i = 0; i < calls / 10; ++i)
    (void)time_call(target);
  for (double& sample : samples)
    sample = time_call(target);
  return summarize(std::move(samples));
}

/// Puts the source to the target repeatedly, until `total` bytes have been sent.
void put_repeatedly(std::span<const std::byte> from, buffer<std::byte>& to, std::size_t total) {
  std::vector<future<void>> under_way(puts_at_a_time);
  std::size_t slot = 0;
  for (std::size_t begun = 0; begun < total; begun += from.size()) {
    future<void>& place = under_way[slot];
    if (place.valid()) place.get();
    place = put(from, to.span());
    if (++slot == under_way.size()) slot = 0;
  }
  for (future<void>& place : under_way) {
    if (place.valid()) place.get();
  }
}

void measure_loaded(const node& target, std::span<const std::byte> from, buffer<std::byte>& to,
                    load_result& result) {
  put_sync(from, to.span()); // touches the memory, and opens the connection
  std::vector<double> samples;
  samples.reserve(max_samples);
  std::atomic<bool> is_over{false};
  std::exception_ptr failure;
  const stopwatch watch;
  library_thread putting{"farcall-tool", [&] {
                           try {
                             put_repeatedly(from, to, result.bytes);
                           } catch (...) {
                             failure = std::current_exception();
                           }
                           result.put_seconds = watch.nanoseconds() / 1e9;
                           is_over.store(true,
                                         std::memory_order_release); // partner: the load below
                         }};
  try {
    while (!is_over.load(std::memory_order_acquire)) {
      const double sample = time_call(target);
      if (samples.size() < max_samples) samples.push_back(sample);
    }
  } catch (...) {
    putting.join();
    throw;
  }
  putting.join();
  if (failure) std::rethrow_exception(failure);
  result.loaded = summarize(std::move(samples));
}

/// Returns the size of the buffer: at most a third of the free memory, since both ends may be on
/// this machine.
std::size_t buffer_size(std::size_t total, bool quick) {
  const std::size_t available = available_memory();
  std::size_t size = quick ? 128 * mib : gib;
  while (size > mib && size * 3 > available)
    size /= 2;
  return std::min(size, total);
}

load_result measure_all(const bench_options& options, const node& target, progress& bar) {
  load_result result;
  result.bytes = options.quick ? 512 * mib : 4 * gib;
  result.buffer = buffer_size(result.bytes, options.quick);
  const local_memory source{result.buffer, pages::small};
  buffer<std::byte> remote = target.allocate<std::byte>(result.buffer);
  bar.begin_step("empty sync calls, nothing else");
  result.quiet = measure_quiet(target, options.batches_or(200'000, 20'000));
  bar.begin_step(fmt::format("empty sync calls during a put of {}", format_bytes(result.bytes)));
  measure_loaded(target, source.bytes(), remote, result);
  return result;
}

json to_json(const load_result& r, const link_session& session) {
  return {{"floor_ns", percentiles_json(session.floor().pooled())},
          {"quiet_ns", percentiles_json(r.quiet)},
          {"loaded_ns", percentiles_json(r.loaded)},
          {"p99_ratio", rounded(r.ratio())},
          {"quiet_calls", r.quiet.samples},
          {"loaded_calls", r.loaded.samples},
          {"put_bytes", r.bytes},
          {"put_at_a_time_bytes", r.buffer},
          {"put_gb_s", rounded(static_cast<double>(r.bytes) / r.put_seconds / 1e9)},
          {"env", session.circumstances()}};
}

std::string to_table(const load_result& r, const floor_probe& floor) {
  table out{{{"sync, empty", table::align::left}, {"p1"}, {"p50"}, {"p99"}, {"calls"}}};
  const auto add = [&](const std::string& what, const summary& s) {
    std::vector<std::string> row{what};
    for (std::string& cell : percentile_cells(s, format_time))
      row.push_back(std::move(cell));
    row.push_back(fmt::format("{}", s.samples));
    out.add_row(std::move(row));
  };
  add("nothing else", r.quiet);
  add(fmt::format("sync call during a large put ({}, {} at a time)", format_bytes(r.bytes),
                  format_bytes(r.buffer)),
      r.loaded);
  std::string text = out.text();
  text += fmt::format("\np99 during the put to quiet p99: {}\n", format_ratio(r.ratio()));
  text += fmt::format("the put meanwhile: {:.2f} GB/s\n",
                      static_cast<double>(r.bytes) / r.put_seconds / 1e9);
  text += fmt::format("floor between processors {} and {}, {}: {} ({}-{})\n", floor.cores().host,
                      floor.cores().target, floor.what(), format_time(floor.pooled().p50),
                      format_time(floor.pooled().p1), format_time(floor.pooled().p99));
  return text;
}

report to_report(const load_result& r, const link_session& session) {
  const summary floor = session.floor().pooled();
  row_chart c{"An empty call while a large put is under way",
              fmt::format("Every call is a sample. The put of {} had {:.2f} GB/s; the 99th "
                          "percentile is {} the one without a put.",
                          format_bytes(r.bytes), static_cast<double>(r.bytes) / r.put_seconds / 1e9,
                          format_ratio(r.ratio())),
              {"time of a call"},
              {{"nothing else", r.quiet, floor, fmt::format("{} calls", r.quiet.samples)},
               {"during a large put", r.loaded, floor, fmt::format("{} calls", r.loaded.samples)}}};
  return session.make_report("load", "Time of short calls during a large copy.", {std::move(c)});
}

int run_load(const bench_options& options) {
  link_session session{options, "load", 2};
  load_result result;
  {
    const job j{session.link().targets(1)};
    result = measure_all(options, j.targets().front(), session.bar());
  }
  session.finish();
  if (options.json) {
    print_json(to_json(result, session));
  } else {
    print(session.heading() + to_table(result, session.floor()));
  }
  options.draw([&] { return to_report(result, session); });
  return 0;
}

} // namespace

command command_load() {
  auto options = std::make_shared<bench_options>();
  return benchmark("load",
                   "Time of an empty sync call while another thread puts 4 GiB to the same target",
                   link_options(*options), options, run_load);
}

} // namespace farcall::tool
