// SPDX-License-Identifier: Apache-2.0

/// \file
/// A solver whose rows and vectors stay on the targets of a job. The targets send each other the
/// entries of p that they share, and the numbers of which they need sums. The host waits.
#pragma once

#include "cg.hpp"

#include <farcall/farcall.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cg {

class resident_solver {
 public:
  /// Sends each target its rows: fewer targets than given if the matrix has fewer rows. All targets
  /// must be processes.
  resident_solver(farcall::job& job, const csr_matrix& matrix, std::span<const double> b);

  /// Solves the system. If a target fails, starts another one, which gets the rows, and from its
  /// neighbour the vectors of a checkpoint; all targets go on from this checkpoint. If
  /// `fails_in` is not 0, the last target kills itself in that iteration. `tell` gets a line when a
  /// target has failed.
  solution solve(const solver_options& options, std::uint64_t fails_in = 0,
                 const std::function<void(const std::string&)>& tell = {});

  /// Describes each target in use.
  [[nodiscard]] std::vector<std::string> descriptions() const;
  /// Returns the time of the last solve(), without the time for sending rows.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  void send_rows(std::size_t member);
  /// Runs the solver on all targets. Returns the results, or nothing for targets that failed.
  std::vector<std::optional<solver_numbers>> run_all(const solver_options& options,
                                                     std::uint64_t fails_in, outcome& how);
  /// Replaces the targets that have failed. All targets then have the vectors of the newest
  /// checkpoint that is complete, or none. Returns the number of its iteration.
  std::uint64_t replace(const std::vector<std::size_t>& failed);

  farcall::job& job_;
  std::vector<system_part> parts_;
  std::vector<farcall::node> targets_;
  std::uint32_t epoch_ = 0; ///< number of the attempt, by which targets ignore older messages
  double seconds_ = 0;
};

} // namespace cg
