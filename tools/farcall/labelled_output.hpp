// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/library_thread.hpp>
#include <farcall/base/line_forwarder.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/output_collector.hpp>

#include <vector>

namespace farcall::tool {

/// Prints the output of all nodes of a job as whole lines, each of which begins with the number of
/// its node. This process reads the output from four pipes: two for the output and error of the
/// program, and two for the lines of the targets, which the program's job has labelled. As only
/// this process prints, no lines are mixed.
class labelled_output {
 public:
  /// Throws failed_run.
  labelled_output();
  labelled_output(const labelled_output&) = delete;
  labelled_output& operator=(const labelled_output&) = delete;
  ~labelled_output();

  /// Returns the pipes' ends for the program. own() is for the program's standard output and error.
  /// lines() is for the targets' lines, and is passed in the variable FARCALL_LINES.
  [[nodiscard]] output_ends own() const { return {theirs_[0].get(), theirs_[1].get()}; }
  [[nodiscard]] output_ends lines() const { return {theirs_[2].get(), theirs_[3].get()}; }

  /// Closes the program's ends in this process. Must be called after the program has inherited
  /// them, so that the pipes end with the program.
  void forget() { theirs_.clear(); }

  /// Prints the output that is left in the pipes after the program's end, and stops. Later output,
  /// of children that outlive the program, is lost.
  void finish();

 private:
  struct source {
    line_forwarder lines;
    unique_fd pipe;
  };

  void run();
  static void drain(source& s, int max_pieces);

  std::vector<unique_fd> theirs_;
  std::vector<source> sources_; ///< the pipes that are read; used only by thread_
  unique_fd stop_;
  library_thread thread_;
};

} // namespace farcall::tool
