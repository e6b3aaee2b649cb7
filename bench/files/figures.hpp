// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "file_work.hpp"

#include <bench/report/model.hpp>
#include <bench/report/statistics.hpp>
#include <tools/common/json.hpp>

#include <optional>
#include <string>
#include <vector>

// Figures of files of the host, as tables, JSON and charts.

namespace farcall::tool {

/// Records of at least this size are measured as bandwidth, and smaller ones as time of a call.
inline constexpr std::uint64_t min_large_record = std::uint64_t{1} << 20;

/// Figures of one kind of calls. Times are nanoseconds of a call, of all threads together.
struct files_row {
  file_work work;
  summary direct; ///< by this process
  /// By this process with two copies, which a target needs. Over TCP, by another process that has
  /// the files.
  std::optional<summary> limit;
  std::optional<summary> preload;   ///< by a target through the preloaded library
  std::optional<summary> mount;     ///< by a target through a mount
  std::optional<summary> example;   ///< by this process through the mount of libfuse's example
  std::optional<double> plain_mb_s; ///< of a bare connection
};

/// Returns the MB/s that a target can reach at most: of the bare connection if there is one, and
/// otherwise the lower one of direct calls and limit.
[[nodiscard]] double bound_mb_s(const files_row& row);

/// All figures of a run.
struct files_figures {
  std::vector<files_row> rows;
  bool has_connection = false;
  std::vector<std::string> left_out; ///< ways that were not measured, and why
};

/// Returns the tables, with a line above them for each way that was left out.
[[nodiscard]] std::string files_tables(const files_figures& figures);
[[nodiscard]] json files_json(const files_figures& figures);
[[nodiscard]] std::vector<chart> files_charts(const files_figures& figures);

/// Returns the name of a kind of access, as in tables.
[[nodiscard]] const char* word_of(file_access access);
[[nodiscard]] bool is_write(file_access access);

} // namespace farcall::tool
