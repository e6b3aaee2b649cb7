// SPDX-License-Identifier: Apache-2.0
#include "bandwidth.hpp"

#include <bench/report/copies.hpp>
#include <bench/runner/local_memory.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <farcall/memory/copy.hpp>
#include <farcall/memory/copy_choice.hpp>
#include <farcall/memory/copy_kernels.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

// Measures each copy kernel, from memory of this process into a target's, and the kernel that the
// library chooses.

namespace farcall::tool {

namespace {

constexpr std::size_t smallest = 64 * kib;

struct kernel_row {
  std::size_t bytes = 0;
  std::vector<summary> kernels; ///< in the order of all_copy_kernels(), then the library's choice
};

kernel_row measure_kernels(bench_session& session, std::size_t bytes, std::size_t batches) {
  session.bar().begin_step(format_bytes(bytes));
  const local_memory source{bytes, pages::small};
  const local_memory sink{bytes, pages::small};
  buffer<std::byte> remote = session.target().allocate<std::byte>(bytes);
  check_round_trip(source.bytes(), sink.bytes(), remote); // also touches all memory
  const std::span<const std::byte> from = source.bytes();
  const std::span<std::byte> to = map(remote);
  std::vector<std::function<void()>> copies;
  for (const copy_kernel& kernel : all_copy_kernels())
    copies.emplace_back([=, copy = kernel.copy] { copy(to.data(), from.data(), bytes); });
  copies.emplace_back([=] { copy_bytes(to.data(), from.data(), bytes); });
  return {.bytes = bytes,
          .kernels = take_turns(
              {.batches = batches, .copies = copies_of(bytes, 2000), .is_warm = true}, copies)};
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const copy_kernel& kernel : all_copy_kernels())
    all.emplace_back(kernel.name);
  all.emplace_back("the library's choice");
  return all;
}

json to_json(const std::vector<kernel_row>& rows, const bench_session& session) {
  const std::vector<std::string> kernels = names();
  json document = json::array();
  for (const kernel_row& row : rows) {
    json of_size;
    for (std::size_t k = 0; k < kernels.size(); ++k)
      of_size[kernels[k]] = rounded(mib_per_second(row.kernels[k], row.bytes));
    document.push_back({{"bytes", row.bytes},
                        {"mib_s", std::move(of_size)},
                        {"batches", row.kernels.front().samples},
                        {"env", session.circumstances()}});
  }
  return document;
}

std::string to_table(const std::vector<kernel_row>& rows) {
  std::vector<table::column> columns{{"MiB/s", table::align::left}};
  for (const kernel_row& row : rows)
    columns.push_back({format_bytes(row.bytes)});
  table out{std::move(columns)};
  const std::vector<std::string> kernels = names();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    std::vector<std::string> cells{kernels[k]};
    for (const kernel_row& row : rows)
      cells.push_back(fmt::format("{:.0f}", mib_per_second(row.kernels[k], row.bytes)));
    out.add_row(std::move(cells));
  }
  const copy_kernel* const chosen = large_copies().chosen();
  return "medians, into memory of a target, small pages; the library uses memcpy below " +
         format_bytes(large_copy_from) + ", and above it now takes: " +
         (chosen == nullptr ? "all in turn, to find out which is the fastest" : chosen->name) +
         "\n\n" + out.text();
}

std::vector<chart> to_charts(const std::vector<kernel_row>& rows) {
  const std::vector<std::string> kernels = names();
  const auto plain =
      static_cast<std::size_t>(std::ranges::find(kernels, std::string("memcpy")) - kernels.begin());
  std::vector<chart_series> series;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    chart_series& s = series.emplace_back();
    s.name = k == plain ? "floor: memcpy" : kernels[k];
    if (k == plain) s.role = series_role::floor;
    for (const kernel_row& row : rows) {
      const bool has_floor = k != plain && plain < kernels.size();
      s.points.push_back(bandwidth_point(row.bytes, row.kernels[k],
                                         has_floor ? row.kernels[plain] : nothing_measured()));
    }
  }
  return {bandwidth_chart("Each way to copy into memory of a target", "Small pages.",
                          std::move(series))};
}

} // namespace

int run_bandwidth_of_kernels(const bandwidth_options& options) {
  if (kind_of(options) != link_kind::shm) {
    throw usage_problem("--kernels measures copies in the memory of this machine; leave out "
                        "--transport and --targets");
  }
  std::vector<std::size_t> chosen = chosen_sizes(options, options.quick ? 16 * mib : gib, gib);
  std::erase_if(chosen, [](std::size_t bytes) { return bytes < smallest; });
  if (chosen.empty()) {
    throw usage_problem(fmt::format("--kernels begins with blocks of {}; give a --max-bytes of "
                                    "that or more",
                                    format_bytes(smallest)));
  }
  bench_session session{options, "bandwidth", chosen.size()};
  std::vector<kernel_row> rows;
  std::vector<std::string> left_out;
  for (const std::size_t bytes : chosen) {
    if (available_memory() < 4 * bytes + 64 * mib) {
      left_out.push_back(fmt::format("{}: needs three blocks of it, and {} of memory are available",
                                     format_bytes(bytes), format_bytes(available_memory())));
      continue;
    }
    rows.push_back(measure_kernels(session, bytes, options.batches_or(20, 20)));
  }
  print_bandwidth(options, session,
                  {to_json(rows, session), to_table(rows), to_charts(rows), left_out});
  return 0;
}

} // namespace farcall::tool
