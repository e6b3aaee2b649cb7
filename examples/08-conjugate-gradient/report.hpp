/// \file
/// The result of a run, and how it is printed.
#pragma once

#include "distributed.hpp"
#include "solver.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cg {

/// What one run has found out.
struct report {
  std::string problem;
  std::size_t rows = 0;
  std::size_t nonzeros = 0;
  std::string preconditioner;
  double tolerance = 0;
  std::vector<std::string> targets;
  cg::outcome outcome = cg::outcome::converged;
  std::uint64_t iterations = 0;
  double residual = 0;     ///< |b - Ax| / |b|
  double seconds = 0;      ///< the offloaded solver, from its start to its answer
  double host_seconds = 0; ///< the same solver without offload
  cg::product_times times;
  double difference = 0; ///< |x - y| / |y|, y the answer without offload
  double limit = 0;      ///< what the difference may be

  [[nodiscard]] double overhead_seconds() const {
    return std::chrono::duration<double>{times.overhead()}.count();
  }
  /// Share of `seconds` that offloading added; see product_times::overhead().
  [[nodiscard]] double overhead_share() const { return overhead_seconds() / seconds; }
  [[nodiscard]] double offloads_per_second() const {
    return static_cast<double>(times.offloads) / seconds;
  }
};

void print_text(const report& r);

/// One JSON object on one line.
void print_json(const report& r);

} // namespace cg
