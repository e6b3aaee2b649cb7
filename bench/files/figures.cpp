// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"
#include "published.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
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
  std::vector<table::column> columns{
      {"call", table::align::left}, {"record"}, {"threads"}, {"direct MB/s"}};
  if (figures.has_connection) columns.push_back({"connection"});
  for (const char* const title :
       {"limit", "preload", "ratio", "mount", "ratio", "libfuse", "VE plain", "VE accio"})
    columns.push_back({title});
  table large(std::move(columns));
  for (const files_row& row : figures.rows) {
    const file_work& work = row.work;
    if (work.record < min_large_record) continue;
    std::vector<std::string> cells{word_of(work.access), format_bytes(work.record),
                                   fmt::format("{}", work.threads),
                                   rate_cell(mb_per_second(work, row.direct))};
    if (figures.has_connection) cells.push_back(rate_cell(row.plain_mb_s));
    cells.push_back(rate_cell(rate_of(row, row.limit)));
    add_way(cells, row, row.preload);
    add_way(cells, row, row.mount);
    cells.push_back(rate_cell(rate_of(row, row.example)));
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
               {"p99"},
               {"libfuse p50"},
               {"mount to it"}}};
  for (const files_row& row : figures.rows) {
    if (row.work.record >= min_large_record) continue;
    std::vector<std::string> cells{word_of(row.work.access), format_bytes(row.work.record),
                                   format_time(row.direct.p50)};
    for (const std::optional<summary>* const ns : {&row.preload, &row.mount}) {
      for (double summary::* const value : {&summary::p1, &summary::p50, &summary::p99})
        cells.push_back(*ns ? format_time(**ns.*value) : "");
    }
    const std::optional<summary>& example = row.example;
    cells.push_back(example ? format_time(example->p50) : "");
    cells.push_back(example && row.mount ? format_ratio(row.mount->p50 / example->p50) : "");
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

/// True if two rows differ only in the number of threads.
bool are_of_one_chart(const files_row& a, const files_row& b) {
  return a.work.access == b.work.access && a.work.record == b.work.record;
}

/// Adds the rate of one way to a series, if it was measured.
void add_point(chart_series& to, const files_row& row, const std::optional<summary>& ns) {
  if (!ns) return;
  const auto rate = [&](double each) { return static_cast<double>(row.work.record) / each * 1e9; };
  to.points.push_back(
      {static_cast<double>(row.work.threads), converted(*ns, rate), bound_mb_s(row) * 1e6});
}

void add_published(chart_series& to, const files_row& row, double mb_s) {
  to.points.push_back({static_cast<double>(row.work.threads), only(mb_s * 1e6)});
}

/// Returns a chart of the rates of one kind of calls against the number of threads, with a series
/// for each column of the table.
line_chart chart_by_threads(const files_figures& figures, const files_row& like) {
  chart_series direct{"direct", {}};
  chart_series limit{"limit", {}};
  chart_series preload{"preload", {}};
  chart_series mount{"mount", {}};
  chart_series example{"libfuse's example", {}};
  chart_series plain{"vector card, plain", {}, series_role::published};
  chart_series accelerated{"vector card, accelerated", {}, series_role::published};
  for (const files_row& row : figures.rows) {
    if (!are_of_one_chart(row, like)) continue;
    add_point(direct, row, row.direct);
    add_point(limit, row, row.limit);
    add_point(preload, row, row.preload);
    add_point(mount, row, row.mount);
    add_point(example, row, row.example);
    const auto published =
        row.work.access == file_access::read_again
            ? std::nullopt
            : published_file_rates(is_write(row.work.access), row.work.record, row.work.threads);
    if (!published) continue;
    add_published(plain, row, published->plain);
    add_published(accelerated, row, published->accelerated);
  }
  line_chart made{fmt::format("Files of the host: {} of {}", word_of(like.work.access),
                              format_bytes(like.work.record)),
                  "Rates of all threads together. Floor: the lower one of direct calls and the "
                  "limit, or a bare "
                  "connection.",
                  {"threads", unit::count, scale::linear},
                  {"bandwidth", unit::bytes_per_second, scale::linear},
                  {}};
  for (chart_series& each :
       std::array{direct, limit, preload, mount, example, plain, accelerated}) {
    if (!each.points.empty()) made.series.push_back(std::move(each));
  }
  return made;
}

row_chart chart_of_small_records(const files_figures& figures) {
  row_chart small{
      "Files of the host: small records, one thread",
      "Floor: the same calls in this process. The time of a write ends when the call returns.",
      {"time of a call"},
      {}};
  for (const files_row& row : figures.rows) {
    if (row.work.record >= min_large_record) continue;
    for (const auto& [way, ns] :
         {std::pair{"preload", &row.preload}, std::pair{"mount", &row.mount},
          std::pair{"libfuse's example", &row.example}}) {
      if (*ns) {
        small.rows.push_back({fmt::format("{} of {}, {}", word_of(row.work.access),
                                          format_bytes(row.work.record), way),
                              **ns, row.direct, ""});
      }
    }
  }
  return small;
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
             "libfuse: the calls of this process through the program of --fuse-example\n"
             "VE: NEC's vector card with a file in /dev/shm, as published, plain and "
             "accelerated\n\n{}\n"
             "one thread; of a write, until it may go on\n\n{}",
             figures.has_connection
                 ? "; limit: by another process that has the files, over one connection for each "
                   "thread"
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
                        {"fuse_example", way_json(row, row.example)},
                        {"plain_mb_s", row.plain_mb_s ? json(*row.plain_mb_s) : json()}});
  }
  return document;
}

std::vector<chart> files_charts(const files_figures& figures) {
  std::vector<chart> charts;
  for (const files_row& row : figures.rows) {
    if (row.work.record < min_large_record) continue;
    const bool is_first = std::none_of(figures.rows.data(), &row, [&](const files_row& other) {
      return are_of_one_chart(other, row);
    });
    if (is_first) charts.emplace_back(chart_by_threads(figures, row));
  }
  charts.emplace_back(chart_of_small_records(figures));
  return charts;
}

} // namespace farcall::tool
