// SPDX-License-Identifier: Apache-2.0
#include "helper.hpp"

#include <bench/bandwidth/bandwidth.hpp>
#include <bench/commands.hpp>
#include <bench/report/copies.hpp>
#include <bench/runner/local_memory.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

/// farcall bench veo-mem: memory of a helper, accessed by libveo.
namespace farcall::tool {
namespace {

constexpr std::size_t quick_limit = 16 * mib;
constexpr std::size_t max_warmed = 256 * mib;
/// Published figures of AVEO 0.9.6 on its card, in microseconds.
constexpr double published_write_us = 11.9;
constexpr double published_read_us = 12.9;

struct memory_row {
  std::size_t bytes = 0;
  pages kind = pages::small;
  summary copy; ///< memcpy in this process
  summary write;
  summary read;
};

struct memory_result {
  figure write_one;
  figure read_one;
  figure call_sync;
  figure call_and_wait;
  std::vector<memory_row> rows;
  std::string no_huge_pages; ///< reason why they were left out; empty if they were measured
};

double share_of_memcpy(const summary& ns, const memory_row& row) { return row.copy.p50 / ns.p50; }

memory_row measure_row(bench_session& session, veo_helper& helper, std::size_t bytes, pages kind,
                       std::size_t batches) {
  session.bar().begin_step(
      fmt::format("{} {} pages", format_bytes(bytes), kind == pages::huge ? "huge" : "small"));
  const local_memory source{bytes, kind};
  const local_memory sink{bytes, kind};
  const std::span<std::byte> from = source.bytes();
  const std::span<std::byte> to = sink.bytes();
  const std::uint64_t there = helper.allocate(bytes);
  for (std::size_t i = 0; i < bytes; i += 61)
    from[i] = static_cast<std::byte>(i % 251);
  helper.write(there, from.data(), bytes);
  helper.read(to.data(), there, bytes);
  if (std::memcmp(from.data(), to.data(), bytes) != 0) {
    throw failed_run("wrong result: veo_read_mem gave back other bytes than were written");
  }

  const std::array<std::function<void()>, 3> copies{
      libc_copy(to, from),
      [&] { helper.write(there, from.data(), bytes); },
      [&] { helper.read(to.data(), there, bytes); },
  };
  const std::vector<summary> ns = take_turns(
      {.batches = batches, .copies = copies_of(bytes, 1000), .is_warm = bytes <= max_warmed},
      copies);
  helper.release(there);
  return {bytes, kind, ns[0], ns[1], ns[2]};
}

json to_json(const memory_result& r, const bench_session& session) {
  json rows = json::array();
  for (const memory_row& row : r.rows) {
    rows.push_back({{"bytes", row.bytes},
                    {"pages", row.kind == pages::huge ? "huge" : "small"},
                    {"memcpy_mib_s", rounded(mib_per_second(row.copy, row.bytes))},
                    {"write_mib_s", rounded(mib_per_second(row.write, row.bytes))},
                    {"read_mib_s", rounded(mib_per_second(row.read, row.bytes))},
                    {"write_to_memcpy", rounded(share_of_memcpy(row.write, row), 3)},
                    {"read_to_memcpy", rounded(share_of_memcpy(row.read, row), 3)},
                    {"memcpy_ns", percentiles_json(row.copy)},
                    {"write_ns", percentiles_json(row.write)},
                    {"read_ns", percentiles_json(row.read)}});
  }
  return {{"call_sync", figure_json(r.call_sync)},
          {"call_async_wait", figure_json(r.call_and_wait)},
          {"write_1_byte", figure_json(r.write_one)},
          {"read_1_byte", figure_json(r.read_one)},
          {"bandwidth", std::move(rows)},
          {"no_huge_pages", r.no_huge_pages},
          {"env", session.circumstances()}};
}

std::string to_table(const memory_result& r) {
  table calls{{{"", table::align::left},
               {"p1"},
               {"p50"},
               {"p99"},
               {"floor"},
               {"ratio"},
               {"AVEO on its card"}}};
  const auto add = [&](const figure& f, const std::string& published) {
    std::vector<std::string> cells{f.what};
    for (std::string& cell : figure_cells(f))
      cells.push_back(std::move(cell));
    cells.push_back(published);
    calls.add_row(std::move(cells));
  };
  add(r.call_sync, "6.7 us");
  add(r.call_and_wait, "10 us");
  add(r.write_one, fmt::format("{} us", published_write_us));
  add(r.read_one, fmt::format("{} us", published_read_us));
  std::string text = calls.text();
  for (const pages kind : {pages::small, pages::huge}) {
    table out{{{"buff kb"},
               {"write MiB/s"},
               {"read MiB/s"},
               {"memcpy MiB/s"},
               {"write:memcpy"},
               {"read:memcpy"}}};
    bool any = false;
    for (const memory_row& row : r.rows) {
      if (row.kind != kind) continue;
      any = true;
      out.add_row({fmt::format("{}", row.bytes / kib),
                   fmt::format("{:.0f}", mib_per_second(row.write, row.bytes)),
                   fmt::format("{:.0f}", mib_per_second(row.read, row.bytes)),
                   fmt::format("{:.0f}", mib_per_second(row.copy, row.bytes)),
                   format_ratio(share_of_memcpy(row.write, row)),
                   format_ratio(share_of_memcpy(row.read, row))});
    }
    if (!any) continue;
    text += fmt::format("\nmemory of this process: {} pages, unregistered\n{}",
                        kind == pages::huge ? "huge" : "small", out.text());
  }
  if (!r.no_huge_pages.empty()) text += "\nno huge pages: " + r.no_huge_pages + '\n';
  return text;
}

report to_report(const memory_result& r, const bench_session& session) {
  std::vector<chart> charts{row_chart{
      "Calls and single bytes through libveo",
      "",
      {"time of a call"},
      {row_of(r.call_sync), row_of(r.call_and_wait), row_of(r.write_one), row_of(r.read_one)}}};
  for (const pages kind : {pages::small, pages::huge}) {
    chart_series write{"veo_write_mem", {}, series_role::figure};
    chart_series read{"veo_read_mem", {}, series_role::figure};
    chart_series copy{"floor: memcpy in this process", {}, series_role::floor};
    for (const memory_row& row : r.rows) {
      if (row.kind != kind) continue;
      write.points.push_back(bandwidth_point(row.bytes, row.write, row.copy));
      read.points.push_back(bandwidth_point(row.bytes, row.read, row.copy));
      copy.points.push_back(bandwidth_point(row.bytes, row.copy, nothing_measured()));
    }
    if (copy.points.empty()) continue;
    charts.emplace_back(bandwidth_chart(
        fmt::format("Memory of this process on {} pages", kind == pages::huge ? "huge" : "small"),
        "", {write, read, copy}));
  }
  std::vector<std::string> left_out;
  if (!r.no_huge_pages.empty()) left_out.push_back("huge pages: " + r.no_huge_pages);
  return session.make_report("veo-mem", "Memory of a helper process by way of libveo.",
                             std::move(charts), std::move(left_out));
}

int run_veo_memory(const bench_options& options) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = kib; bytes <= (options.quick ? quick_limit : gib); bytes *= 2) {
    if (bytes * 4 < available_memory()) sizes.push_back(bytes);
  }
  memory_result result;
  result.no_huge_pages = why_no_huge_pages();
  const std::size_t kinds = result.no_huge_pages.empty() ? 2 : 1;
  bench_session session{options, "veo-mem", 4 + kinds * sizes.size()};
  veo_helper helper(session.cores().target, 1);
  session.wait_for_process(helper.pid());
  // A helper's threads spin after its start, beside this thread.
  session.wait_for_idle_target();

  const std::size_t batches = options.batches_or(400, 50);
  constexpr std::size_t calls = 200;
  const auto repeat = [&](const std::function<void()>& one) {
    return [one] {
      for (std::size_t i = 0; i < calls; ++i)
        one();
    };
  };
  std::byte byte{42};
  const std::uint64_t there = helper.allocate(1);
  result.call_sync =
      session.measure("veo_call_sync, empty", batches, calls, repeat([&] { helper.call_sync(); }));
  result.call_and_wait = session.measure("veo_call_async + wait, empty", batches, calls,
                                         repeat([&] { helper.call_and_wait(); }));
  result.write_one = session.measure("veo_write_mem, 1 byte", batches, calls,
                                     repeat([&] { helper.write(there, &byte, 1); }));
  result.read_one = session.measure("veo_read_mem, 1 byte", batches, calls,
                                    repeat([&] { helper.read(&byte, there, 1); }));
  helper.release(there);

  for (const pages kind : {pages::small, pages::huge}) {
    if (kind == pages::huge && !result.no_huge_pages.empty()) continue;
    for (const std::size_t bytes : sizes) {
      const std::size_t rounds = options.batches_or(bytes >= 64 * mib ? 11 : 51, 21);
      result.rows.push_back(measure_row(session, helper, bytes, kind, rounds));
    }
  }
  session.bar().finish();
  if (options.json) {
    print_json(to_json(result, session));
  } else {
    print(session.heading() + '\n' + to_table(result));
  }
  options.draw([&] { return to_report(result, session); });
  return 0;
}

} // namespace

command command_veo_memory() {
  auto options = std::make_shared<bench_options>();
  return benchmark("veo-mem",
                   "libveo: calls, single bytes, and copies from 1 KiB to 1 GiB beside memcpy",
                   shared_options(*options), options, run_veo_memory);
}

} // namespace farcall::tool
