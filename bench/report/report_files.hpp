// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/model.hpp>

#include <farcall/base/unique_fd.hpp>

#include <array>
#include <string>

namespace farcall::tool {

/// The files that a benchmark draws its figures into. Unwritable files are found before the
/// measurement.
class report_files {
 public:
  std::string html; ///< path of --html; empty if not given
  std::string svg;
  std::string script = script_beside_program(); ///< charts.py, which draws them

  /// Checks that both files can be written, without changing them: a missing file is created and
  /// removed again. Throws usage_problem if one cannot be written, or if both are the same file or
  /// standard output's file, and failed_run if the script or python3 is missing.
  void check();

  [[nodiscard]] bool are_wanted() const { return !html.empty() || !svg.empty(); }

  /// Draws both files, replacing their content. Throws failed_run if the disk is full, the script
  /// fails, or there is nothing to draw; in the last two cases the files keep their content.
  void write(const report& r) const;

  [[nodiscard]] static std::string script_beside_program();

 private:
  /// Existing files stay open: closing a pipe would end it for its reader.
  std::array<unique_fd, 2> open_;
};

} // namespace farcall::tool
