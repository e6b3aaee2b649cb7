#pragma once

#include <bench/report/model.hpp>

#include <farcall/base/unique_fd.hpp>

#include <array>
#include <string>

namespace farcall::tool {

/// The files that a benchmark draws its figures into. What cannot be written is found before
/// anything is measured.
class report_files {
 public:
  std::string html; ///< as --html says; empty: none
  std::string svg;

  /// Looks whether both can be written, without changing them: a file that is not there is made
  /// and removed again. Throws usage_problem when one cannot be, or when both are the same file or
  /// that of standard output.
  void check();

  [[nodiscard]] bool are_wanted() const { return !html.empty() || !svg.empty(); }

  /// Writes them, in place of what they held. Throws failed_run for a disk that is full, and when
  /// there is nothing to draw; files are left as they were then.
  void write(const report& r) const;

 private:
  /// Those that are there keep being open, since a pipe would end.
  std::array<unique_fd, 2> open_;
};

} // namespace farcall::tool
