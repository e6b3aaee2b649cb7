#pragma once

#include <farcall/base/line_forwarder.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/output_collector.hpp>

#include <thread>
#include <vector>

namespace farcall::tool {

/// What all nodes of a job print, in whole lines that begin with the node's number. The program
/// that is run prints into two pipes of ours; the lines of its targets, labelled by its job, come
/// by two others. So one process writes all lines.
class labelled_output {
 public:
  /// Throws failed_run.
  labelled_output();
  labelled_output(const labelled_output&) = delete;
  labelled_output& operator=(const labelled_output&) = delete;
  ~labelled_output();

  /// Descriptors for the program: its output and error, and what FARCALL_LINES names.
  [[nodiscard]] output_ends own() const { return {theirs_[0].get(), theirs_[1].get()}; }
  [[nodiscard]] output_ends lines() const { return {theirs_[2].get(), theirs_[3].get()}; }

  /// The program has them.
  void let_go() { theirs_.clear(); }

  /// The program has ended: passes on what it has left. Children that it has left behind print for
  /// nobody.
  void finish();

 private:
  struct source {
    line_forwarder lines;
    unique_fd pipe;
  };

  void run();
  static void drain(source& s, int most_pieces);

  std::vector<unique_fd> theirs_;
  std::vector<source> sources_; ///< the thread's
  unique_fd stop_;
  std::thread thread_;
};

} // namespace farcall::tool
