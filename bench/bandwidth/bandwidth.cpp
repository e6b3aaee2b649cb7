// SPDX-License-Identifier: Apache-2.0
#include "bandwidth.hpp"

#include <bench/commands.hpp>
#include <bench/report/copies.hpp>
#include <bench/runner/local_memory.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr std::size_t quick_limit = 16 * mib;
/// Limit of warmed blocks: larger ones exceed all caches.
constexpr std::size_t max_warmed = 256 * mib;

struct bandwidth_row {
  std::size_t bytes = 0;
  bool huge_here = false;   ///< pages of this process's memory, as found
  bool huge_target = false; ///< pages of the target's buffer, as found
  summary copy;             ///< libc's memcpy between two blocks of this process
  summary put;
  summary get;
  summary floor;
};

/// Compares the ends and the middle: a full comparison would double the time of copying a gigabyte.
bool same_at_the_ends(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.front() == b.front() && a.back() == b.back() && a[a.size() / 2] == b[b.size() / 2];
}

} // namespace

std::vector<summary> take_turns(const turns& how, std::span<const std::function<void()>> kinds) {
  std::vector<std::vector<double>> samples(kinds.size());
  for (std::size_t batch = 0; batch < how.batches; ++batch) {
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (how.before) how.before(k);
      if (how.is_warm) kinds[k]();
      const stopwatch watch;
      for (std::size_t i = 0; i < how.copies; ++i)
        kinds[k]();
      samples[k].push_back(watch.nanoseconds() / static_cast<double>(how.copies));
    }
  }
  std::vector<summary> result;
  for (std::vector<double>& all : samples)
    result.push_back(summarize(std::move(all)));
  return result;
}

std::function<void()> libc_copy(std::span<std::byte> to, std::span<const std::byte> from) {
  return [to, from] {
    void* (*volatile copy)(void*, const void*, std::size_t) = std::memcpy;
    copy(to.data(), from.data(), from.size());
  };
}

std::size_t copies_of(std::size_t bytes, std::size_t most) {
  return std::clamp<std::size_t>(mib / bytes, 1, most);
}

double mib_per_second(const summary& ns, std::size_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(mib) / (ns.p50 / 1e9);
}

void check_round_trip(std::span<std::byte> from, std::span<std::byte> back,
                      buffer<std::byte>& remote) {
  for (std::size_t i = 0; i < from.size(); i += 61)
    from[i] = static_cast<std::byte>(i % 251);
  from.back() = std::byte{253};
  std::memset(back.data(), 0, back.size());
  put_sync(std::span<const std::byte>{from}, remote.span());
  get_sync(remote.span(), back);
  if (!same_at_the_ends(from, back))
    throw failed_run("wrong result: put and get gave back other bytes");
}

std::vector<std::size_t> chosen_sizes(const bandwidth_options& options, std::size_t usual,
                                      std::size_t most) {
  const std::size_t limit = std::min(options.max_bytes != 0 ? options.max_bytes : usual, most);
  std::vector<std::size_t> chosen;
  for (const std::size_t bytes : block_sizes) {
    if (bytes <= limit) chosen.push_back(bytes);
  }
  return chosen;
}

void append_spread(std::vector<std::string>& cells, const summary& put, const summary& get,
                   const summary& floor) {
  for (const summary& s : {put, get}) {
    for (std::string& cell : percentile_cells(s, format_time))
      cells.push_back(std::move(cell));
  }
  cells.push_back(format_time(floor.p50));
}

void print_bandwidth(const bandwidth_options& options, bench_session& session,
                     bandwidth_output output) {
  session.bar().finish();
  if (options.json) {
    for (const std::string& line : output.left_out)
      fmt::print(stderr, "farcall: not measured: {}\n", line);
    print_json(output.rows);
  } else {
    std::string text = session.heading() + '\n' + output.table;
    for (const std::string& line : output.left_out)
      text += "not measured: " + line + '\n';
    print(text);
  }
  options.draw([&] {
    return session.make_report("bandwidth", "Bandwidth of copies to and from a target.",
                               std::move(output.charts), std::move(output.left_out));
  });
}

std::size_t available_memory() {
  return static_cast<std::size_t>(std::max(0L, read_environment().memory_available_mib)) * mib;
}

namespace {

bool target_pages_are_huge(buffer<std::byte>& remote, std::size_t bytes) {
  if (bytes < 2 * mib) return false;
  try {
    return huge_bytes_at(map(remote).data()) >= bytes / 2;
  } catch (const error&) {
    return false; // this transport cannot map the memory, so its pages are unknown
  }
}

bandwidth_row measure_row(bench_session& session, std::size_t bytes, pages kind,
                          std::size_t batches) {
  session.bar().begin_step(
      fmt::format("{} {} pages", format_bytes(bytes), kind == pages::huge ? "huge" : "small"));
  const local_memory source{bytes, kind};
  const local_memory sink{bytes, kind};
  buffer<std::byte> remote = session.target().allocate<std::byte>(bytes);
  check_round_trip(source.bytes(), sink.bytes(), remote); // also touches all memory

  const std::span<const std::byte> from = source.bytes();
  const std::span<std::byte> to = sink.bytes();
  const auto far = remote.span();
  const std::array<std::function<void()>, 3> copies{
      libc_copy(to, from),
      [&] { put_sync(from, far); },
      [&] { get_sync(far, to); },
  };
  std::vector<double> floor = session.measure_floor();
  const std::vector<summary> ns = take_turns(
      {.batches = batches, .copies = copies_of(bytes, 2000), .is_warm = bytes <= max_warmed},
      copies);
  const std::vector<double> floor_after = session.measure_floor();
  floor.insert(floor.end(), floor_after.begin(), floor_after.end());
  return {.bytes = bytes,
          .huge_here = huge_bytes_at(from.data()) >= bytes / 2 && bytes >= 2 * mib,
          .huge_target = target_pages_are_huge(remote, bytes),
          .copy = ns[0],
          .put = ns[1],
          .get = ns[2],
          .floor = summarize(std::move(floor))};
}

struct bandwidth_result {
  std::vector<bandwidth_row> rows;
  std::vector<std::string> left_out; ///< what was not measured, and why
};

json to_json(const bandwidth_result& result, const bench_session& session) {
  const auto pages_word = [](bool huge) { return huge ? "huge" : "small"; };
  json rows = json::array();
  for (const bandwidth_row& row : result.rows) {
    rows.push_back({
        {"bytes", row.bytes},
        {"pages", pages_word(row.huge_here)},
        {"target_pages", pages_word(row.huge_target)},
        {"memcpy_mib_s", rounded(mib_per_second(row.copy, row.bytes))},
        {"put_mib_s", rounded(mib_per_second(row.put, row.bytes))},
        {"get_mib_s", rounded(mib_per_second(row.get, row.bytes))},
        {"memcpy_p50_ns", rounded(row.copy.p50)},
        {"put_p50_ns", rounded(row.put.p50)},
        {"get_p50_ns", rounded(row.get.p50)},
        {"put_to_memcpy", rounded(row.copy.p50 / row.put.p50, 3)},
        {"get_to_memcpy", rounded(row.copy.p50 / row.get.p50, 3)},
        {"memcpy_ns", percentiles_json(row.copy)},
        {"put_ns", percentiles_json(row.put)},
        {"get_ns", percentiles_json(row.get)},
        {"batches", row.put.samples},
        {"floor_ns", percentiles_json(row.floor)},
        {"env", session.circumstances()},
    });
  }
  return rows;
}

std::string to_table(const bandwidth_result& result) {
  table out{{{"bytes"},
             {"pages", table::align::left},
             {"memcpy MiB/s"},
             {"put MiB/s"},
             {"get MiB/s"},
             {"put:memcpy"},
             {"get:memcpy"},
             {"put p1"},
             {"p50"},
             {"p99"},
             {"get p1"},
             {"p50"},
             {"p99"},
             {"floor"}}};
  for (const bandwidth_row& row : result.rows) {
    std::vector<std::string> cells{format_bytes(row.bytes),
                                   fmt::format("{}, target {}", row.huge_here ? "huge" : "small",
                                               row.huge_target ? "huge" : "small"),
                                   fmt::format("{:.0f}", mib_per_second(row.copy, row.bytes)),
                                   fmt::format("{:.0f}", mib_per_second(row.put, row.bytes)),
                                   fmt::format("{:.0f}", mib_per_second(row.get, row.bytes)),
                                   format_ratio(row.copy.p50 / row.put.p50),
                                   format_ratio(row.copy.p50 / row.get.p50)};
    append_spread(cells, row.put, row.get, row.floor);
    out.add_row(std::move(cells));
  }
  return "bandwidths are medians; a ratio above 1 means faster than memcpy\n\n" + out.text();
}

std::vector<chart> to_charts(const bandwidth_result& result) {
  std::vector<chart> charts;
  for (const bool huge : {false, true}) {
    chart_series put{"put, to the target", {}, series_role::figure};
    chart_series get{"get, from the target", {}, series_role::figure};
    chart_series copy{"floor: memcpy in this process", {}, series_role::floor};
    for (const bandwidth_row& row : result.rows) {
      if (row.huge_here != huge) continue;
      put.points.push_back(bandwidth_point(row.bytes, row.put, row.copy));
      get.points.push_back(bandwidth_point(row.bytes, row.get, row.copy));
      copy.points.push_back(bandwidth_point(row.bytes, row.copy, nothing_measured()));
    }
    if (copy.points.empty()) continue;
    charts.emplace_back(bandwidth_chart(
        fmt::format("Copies to and from a target, {} pages here", huge ? "huge" : "small"), "",
        {std::move(put), std::move(get), std::move(copy)}));
  }
  return charts;
}

bandwidth_result measure_all(bench_session& session, const bandwidth_options& options,
                             const std::vector<std::size_t>& chosen) {
  bandwidth_result result;
  const std::size_t batches = options.batches_or(40, 20);
  for (const pages kind : {pages::small, pages::huge}) {
    const std::string word = kind == pages::huge ? "huge" : "small";
    if (options.pages != "both" && options.pages != word) continue;
    if (kind == pages::huge) {
      const std::string reason = why_no_huge_pages();
      if (!reason.empty()) {
        result.left_out.push_back("huge pages: " + reason);
        continue;
      }
    }
    for (const std::size_t bytes : chosen) {
      if (kind == pages::huge && bytes < 2 * mib) continue; // too small for a huge page
      const std::size_t available = available_memory();
      if (available < 4 * bytes + 64 * mib) {
        result.left_out.push_back(
            fmt::format("{} on {} pages: needs three blocks of it, and {} of memory are available",
                        format_bytes(bytes), word, format_bytes(available)));
        continue;
      }
      result.rows.push_back(measure_row(session, bytes, kind,
                                        bytes >= 256 * mib ? options.batches_or(20, 20) : batches));
      if (kind == pages::huge && !result.rows.back().huge_here) {
        result.left_out.push_back(fmt::format(
            "{} on huge pages: the kernel gave small ones, the row says so", format_bytes(bytes)));
      }
    }
  }
  return result;
}

int run_bandwidth(const bandwidth_options& options) {
  if (options.unregistered) return run_bandwidth_of_unregistered(options);
  if (options.threads != 1)
    throw usage_problem("--threads goes with --unregistered; give both, or none");
  if (options.fresh) throw usage_problem("--fresh goes with --unregistered; give both, or none");
  if (options.kernels) return run_bandwidth_of_kernels(options);
  if (kind_of(options) != link_kind::shm) return run_bandwidth_over_connection(options);
  const std::vector<std::size_t> chosen =
      chosen_sizes(options, options.quick ? quick_limit : gib, gib);
  std::size_t steps = 0;
  for (const std::size_t bytes : chosen)
    steps += bytes >= 2 * mib && options.pages == "both" ? 2 : 1;
  if (options.pages == "huge" && chosen.back() < 2 * mib) {
    throw usage_problem(
        fmt::format("--max-bytes {}: no block of that size lies on a huge page; give "
                    "2MiB or more, or --pages small",
                    options.max_bytes));
  }
  bench_session session{options, "bandwidth", steps};
  const bandwidth_result result = measure_all(session, options, chosen);
  print_bandwidth(options, session,
                  {to_json(result, session), to_table(result), to_charts(result), result.left_out});
  return 0;
}

} // namespace

command command_bandwidth() {
  auto options = std::make_shared<bandwidth_options>();
  bandwidth_options& o = *options;
  std::vector<option> all = link_options(o);
  all.push_back({.name = "--max-bytes",
                 .value = &o.max_bytes,
                 .text = "Largest block, e.g. 64MiB (default: 1GiB, quick: 16MiB; over TCP 256MiB, "
                         "quick: 64MiB)",
                 .range = {{block_sizes.front(), block_sizes.back()}},
                 .is_size = true});
  all.push_back({.name = "--pages",
                 .value = &o.pages,
                 .text = "Pages of the memory here: small, huge or both (over TCP: small); with "
                         "--unregistered on both sides, and huge ones are those of the pool, too",
                 .choices = {"small", "huge", "both"},
                 .shows_default = true});
  all.push_back({.name = "--kernels",
                 .value = &o.kernels,
                 .text = "Measure each copy kernel instead, and the library's choice"});
  all.push_back({.name = "--unregistered",
                 .value = &o.unregistered,
                 .text = "Measure unregistered memory of 32 KiB to 1 GiB on both sides instead",
                 .excludes = "--kernels"});
  all.push_back({.name = "--fresh",
                 .value = &o.fresh,
                 .text =
                     "With --unregistered: before each copy, blocks are written or read by their "
                     "owners, as by a program that uses them, instead of a copy that warms the "
                     "caches"});
  all.push_back({.name = "--threads",
                 .value = &o.threads,
                 .text = "With --unregistered: also measure that many threads that copy at once, "
                         "each between its own blocks (default: 1)",
                 .range = {{1, 256}}});
  return benchmark("bandwidth",
                   "put and get of 8 B to 1 GiB against memcpy, or over TCP against bare copies",
                   std::move(all), options, run_bandwidth);
}

} // namespace farcall::tool
