// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"
#include "published.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

double mb_per_second(const file_work& work, const summary& ns_per_call) {
  return static_cast<double>(work.record) / ns_per_call.p50 * 1e3;
}

std::string rate_cell(std::optional<double> mb_s) {
  return mb_s ? fmt::format("{:.0f}", *mb_s) : "";
}

std::optional<double> rate_of(const files_row& row, const std::optional<summary>& ns) {
  if (!ns) return std::nullopt;
  return mb_per_second(row.work, *ns);
}

/// Appends the rate of a target, and its ratio to the bound.
void add_way(std::vector<std::string>& cells, const files_row& row,
             const std::optional<summary>& ns) {
  const std::optional<double> rate = rate_of(row, ns);
  cells.push_back(rate_cell(rate));
  cells.push_back(rate ? format_ratio(*rate / bound_mb_s(row)) : "");
}

std::string large_table(const files_figures& figures) {
  table large{{{"call", table::align::left},
               {"record"},
               {"threads"},
               {"direct MB/s"},
               {figures.has_connection ? "connection" : "limit"},
               {"preload"},
               {"ratio"},
               {"mount"},
               {"ratio"},
               {"VE plain"},
               {"VE accio"}}};
  for (const files_row& row : figures.rows) {
    const file_work& work = row.work;
    if (work.record < min_large_record) continue;
    std::vector<std::string> cells{
        word_of(work.access), format_bytes(work.record), fmt::format("{}", work.threads),
        rate_cell(mb_per_second(work, row.direct)),
        rate_cell(figures.has_connection ? row.plain_mb_s : rate_of(row, row.limit))};
    add_way(cells, row, row.preload);
    add_way(cells, row, row.mount);
    const auto published =
        work.access == file_access::read_again
            ? std::nullopt
            : published_file_rates(is_write(work.access), work.record, work.threads);
    cells.push_back(published ? rate_cell(published->plain) : "");
    cells.push_back(published ? rate_cell(published->accelerated) : "");
    large.add_row(std::move(cells));
  }
  return large.text();
}

std::string small_table(const files_figures& figures) {
  table small{{{"call", table::align::left},
               {"record"},
               {"direct p50"},
               {"preload p1"},
               {"p50"},
               {"p99"},
               {"mount p1"},
               {"p50"},
               {"p99"}}};
  for (const files_row& row : figures.rows) {
    if (row.work.record >= min_large_record) continue;
    std::vector<std::string> cells{word_of(row.work.access), format_bytes(row.work.record),
                                   format_time(row.direct.p50)};
    for (const std::optional<summary>* const ns : {&row.preload, &row.mount}) {
      for (double summary::* const value : {&summary::p1, &summary::p50, &summary::p99})
        cells.push_back(*ns ? format_time(**ns.*value) : "");
    }
    small.add_row(std::move(cells));
  }
  return small.text();
}

/// Returns percentiles of a way and its rate, or null.
json way_json(const files_row& row, const std::optional<summary>& ns) {
  if (!ns) return nullptr;
  return {{"ns", percentiles_json(*ns)},
          {"mb_s", rounded(mb_per_second(row.work, *ns), 1)},
          {"to_direct", rounded(row.direct.p50 / ns->p50, 3)},
          {"to_bound", rounded(mb_per_second(row.work, *ns) / bound_mb_s(row), 3)}};
}

} // namespace

const char* word_of(file_access access) {
  switch (access) {
  case file_access::write:
    return "pwrite";
  case file_access::read:
    return "pread";
  case file_access::read_again:
    return "pread, again";
  case file_access::write_in_a_row:
    return "write";
  case file_access::read_in_a_row:
    return "read";
  default:
    return "pread, random";
  }
}

bool is_write(file_access access) {
  return access == file_access::write || access == file_access::write_in_a_row;
}

double bound_mb_s(const files_row& row) {
  if (row.plain_mb_s) return *row.plain_mb_s;
  const double direct = mb_per_second(row.work, row.direct);
  return row.limit ? std::min(direct, mb_per_second(row.work, *row.limit)) : direct;
}

std::string files_tables(const files_figures& figures) {
  std::string text;
  for (const std::string& why : figures.left_out)
    text += why + '\n';
  return text +
         fmt::format(
             "each thread has a file of its own, which is there already; rates are medians of all "
             "threads together, with fsync\n"
             "direct: the same calls in this process{}\n"
             "preload, mount: by a target, through the preloaded library and through a mount, "
             "which "
             "has cached the bytes of reads again only; ratios are to {}\n"
             "VE: NEC's vector card with a file in /dev/shm, as published, plain and "
             "accelerated\n\n{}\n"
             "one thread; of a write, until it may go on\n\n{}",
             figures.has_connection
                 ? ""
                 : "; limit: with a second copy of each byte, by two threads at least",
             figures.has_connection ? "the bare connection, or to direct without one"
                                    : "the lower one of direct and limit",
             large_table(figures), small_table(figures));
}

json files_json(const files_figures& figures) {
  json document = json::array();
  for (const files_row& row : figures.rows) {
    document.push_back({{"call", word_of(row.work.access)},
                        {"record", row.work.record},
                        {"threads", row.work.threads},
                        {"bytes_of_file", row.work.bytes},
                        {"direct", way_json(row, row.direct)},
                        {"limit", way_json(row, row.limit)},
                        {"preload", way_json(row, row.preload)},
                        {"mount", way_json(row, row.mount)},
                        {"plain_mb_s", row.plain_mb_s ? json(*row.plain_mb_s) : json()}});
  }
  return document;
}

std::vector<chart> files_charts(const files_figures& figures) {
  row_chart large{"Files of the host, read and written by a target",
                  "Floor: the same calls in this process, or with two copies of each byte if that "
                  "is slower. Rates are of all threads together.",
                  {"bandwidth", unit::bytes_per_second},
                  {}};
  row_chart small{
      "Small records, one thread",
      "Floor: the same calls in this process. The time of a write ends when the call returns.",
      {"time of a call"},
      {}};
  for (const files_row& row : figures.rows) {
    const file_work& work = row.work;
    const std::string what =
        fmt::format("{} of {}", word_of(work.access), format_bytes(work.record));
    const auto rate = [&](double ns) { return static_cast<double>(work.record) / ns * 1e9; };
    const bool is_limited = row.limit && row.limit->p50 > row.direct.p50;
    for (const auto& [way, ns] :
         {std::pair{"preload", &row.preload}, std::pair{"mount", &row.mount}}) {
      if (!*ns) continue;
      if (work.record < min_large_record) {
        small.rows.push_back({fmt::format("{}, {}", what, way), **ns, row.direct, ""});
        continue;
      }
      large.rows.push_back(
          {fmt::format("{}, {} thread{}, {}", what, work.threads, work.threads == 1 ? "" : "s",
                       way),
           converted(**ns, rate), converted(is_limited ? *row.limit : row.direct, rate),
           row.plain_mb_s ? fmt::format("one bare connection: {:.0f} MB/s", *row.plain_mb_s) : ""});
    }
  }
  return {std::move(large), std::move(small)};
}

} // namespace farcall::tool
