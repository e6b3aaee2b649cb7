#include "bandwidth.hpp"

#include <bench/commands.hpp>
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

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t gib = 1024 * mib;
constexpr std::array<std::size_t, 14> sizes{8,        64,       512,       1 * kib, 4 * kib,
                                            16 * kib, 64 * kib, 256 * kib, 1 * mib, 4 * mib,
                                            16 * mib, 64 * mib, 256 * mib, gib};
constexpr std::size_t quick_limit = 16 * mib;
/// Larger blocks leave nothing in any cache, so there is nothing to warm.
constexpr std::size_t largest_warmed = 256 * mib;

struct bandwidth_row {
  std::size_t bytes = 0;
  bool huge_here = false;   ///< pages of the memory in this process, as found
  bool huge_target = false; ///< pages of the target's buffer, as found
  figure copy;              ///< libc memcpy between two blocks of this process
  figure put;
  figure get;
};

/// Operations per sample: enough that reading the clock does not count.
std::size_t operations_for(std::size_t bytes) {
  return std::clamp<std::size_t>(mib / bytes, 1, 2000);
}

/// A full comparison would double the time of a gigabyte copy, so the ends and the middle are
/// looked at.
bool same_at_the_ends(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.front() == b.front() && a.back() == b.back() && a[a.size() / 2] == b[b.size() / 2];
}

} // namespace

double time_one(std::size_t operations, const std::function<void()>& operation) {
  const stopwatch watch;
  for (std::size_t i = 0; i < operations; ++i)
    operation();
  return watch.nanoseconds() / static_cast<double>(operations);
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

std::vector<std::size_t> chosen_sizes(std::span<const std::size_t> sizes,
                                      const bandwidth_options& options, std::size_t usual) {
  const std::size_t limit = options.max_bytes != 0 ? options.max_bytes : usual;
  std::vector<std::size_t> chosen;
  for (const std::size_t bytes : sizes) {
    if (bytes <= limit) chosen.push_back(bytes);
  }
  return chosen;
}

void print_bandwidth(const bandwidth_options& options, bench_session& session, const json& rows,
                     const std::string& table, const std::vector<std::string>& left_out) {
  session.bar().finish();
  if (options.json) {
    for (const std::string& line : left_out)
      fmt::print(stderr, "farcall: not measured: {}\n", line);
    print_json(rows);
    return;
  }
  std::string text = session.heading() + '\n' + table;
  for (const std::string& line : left_out)
    text += "not measured: " + line + '\n';
  print(text);
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
    return false; // this transport cannot map it, so nothing is known
  }
}

/// The three copies take turns, each after one of its own kind that is not timed, so that a change
/// of the machine in between strikes all of them and none finds the caches as another one left
/// them.
bandwidth_row measure_row(bench_session& session, std::size_t bytes, pages kind,
                          std::size_t batches) {
  session.bar().begin_step(
      fmt::format("{} {} pages", format_bytes(bytes), kind == pages::huge ? "huge" : "small"));
  const local_memory source{bytes, kind};
  const local_memory sink{bytes, kind};
  buffer<std::byte> remote = session.target().allocate<std::byte>(bytes);
  check_round_trip(source.bytes(), sink.bytes(), remote); // touches everything, too

  const std::span<const std::byte> from = source.bytes();
  const std::span<std::byte> to = sink.bytes();
  const auto far = remote.span();
  // Through a volatile pointer, or the compiler might drop copies that nobody reads, or inline the
  // small ones.
  void* (*volatile libc_memcpy)(void*, const void*, std::size_t) = std::memcpy;
  const std::array<std::function<void()>, 3> copies{
      [&] { libc_memcpy(to.data(), from.data(), bytes); },
      [&] { put_sync(from, far); },
      [&] { get_sync(far, to); },
  };
  std::array<std::vector<double>, 3> samples;
  const std::size_t operations = operations_for(bytes);
  const std::vector<double> floor_before = session.measure_floor();
  for (std::size_t batch = 0; batch < batches; ++batch) {
    for (std::size_t c = 0; c < copies.size(); ++c) {
      if (bytes <= largest_warmed) copies[c]();
      samples[c].push_back(time_one(operations, copies[c]));
    }
  }
  std::vector<double> floor = session.measure_floor();
  floor.insert(floor.end(), floor_before.begin(), floor_before.end());
  const summary around = summarize(std::move(floor));

  bandwidth_row row;
  row.bytes = bytes;
  row.huge_here = huge_bytes_at(from.data()) >= bytes / 2 && bytes >= 2 * mib;
  row.huge_target = target_pages_are_huge(remote, bytes);
  row.copy = {"memcpy", summarize(std::move(samples[0])), around};
  row.put = {"put", summarize(std::move(samples[1])), around};
  row.get = {"get", summarize(std::move(samples[2])), around};
  return row;
}

double mib_per_second(const figure& f, std::size_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(mib) / (f.ns.p50 / 1e9);
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
        {"memcpy_p50_ns", rounded(row.copy.ns.p50)},
        {"put_p50_ns", rounded(row.put.ns.p50)},
        {"get_p50_ns", rounded(row.get.ns.p50)},
        {"put_to_memcpy", rounded(row.copy.ns.p50 / row.put.ns.p50, 3)},
        {"get_to_memcpy", rounded(row.copy.ns.p50 / row.get.ns.p50, 3)},
        {"memcpy_ns", percentiles_json(row.copy.ns)},
        {"put_ns", percentiles_json(row.put.ns)},
        {"get_ns", percentiles_json(row.get.ns)},
        {"batches", row.put.ns.samples},
        {"floor_ns", percentiles_json(row.put.floor)},
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
                                   format_ratio(row.copy.ns.p50 / row.put.ns.p50),
                                   format_ratio(row.copy.ns.p50 / row.get.ns.p50)};
    for (const summary& s : {row.put.ns, row.get.ns}) {
      for (std::string& cell : percentile_cells(s, format_time))
        cells.push_back(std::move(cell));
    }
    cells.push_back(format_time(row.put.floor.p50));
    out.add_row(std::move(cells));
  }
  return "bandwidths are medians; a ratio above 1 means faster than memcpy\n\n" + out.text();
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
      if (kind == pages::huge && bytes < 2 * mib) continue; // nothing of that size lies on one
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
  if (kind_of(options) != link_kind::shm) return run_bandwidth_over_connection(options);
  const std::vector<std::size_t> chosen =
      chosen_sizes(sizes, options, options.quick ? quick_limit : gib);
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
  print_bandwidth(options, session, to_json(result, session), to_table(result), result.left_out);
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
                 .range = {{sizes.front(), sizes.back()}},
                 .is_size = true});
  all.push_back({.name = "--pages",
                 .value = &o.pages,
                 .text = "Pages of the memory here: small, huge or both (over TCP: small)",
                 .choices = {"small", "huge", "both"},
                 .shows_default = true});
  return benchmark(
      "bandwidth",
      "put and get of 8 B to 1 GiB against memcpy, or over TCP against bare copies over it",
      std::move(all), options, run_bandwidth);
}

} // namespace farcall::tool
