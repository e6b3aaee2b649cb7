#pragma once

#include "pinning.hpp"
#include "statistics.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace farcall::tool {

/// Pairs of cache lines that the floor is measured on in turn, one for each batch. Whole multiples
/// of it make figures that can be compared.
inline constexpr std::size_t floor_places = 64;

/// The bare round trip of a flag between two processes: one cache line each way, no message, no
/// handler. It is what no offload over the same two cores can beat, and it is measured in the run
/// whose figures are compared with it.
///
/// The second process is forked by the constructor, so make it before any thread or job is started.
/// Between measurements it sleeps and leaves its core to others.
class floor_meter {
 public:
  floor_meter(core_pair cores, std::size_t batches, std::size_t calls);
  ~floor_meter();
  floor_meter(const floor_meter&) = delete;
  floor_meter& operator=(const floor_meter&) = delete;
  floor_meter(floor_meter&&) = delete;
  floor_meter& operator=(floor_meter&&) = delete;

  /// Measures now, bound to the host's core, and returns nanoseconds per round trip, one sample per
  /// batch. The core of the target must be idle: a target that still spins there is waited for by
  /// the caller.
  std::vector<double> measure();

  /// All samples measured so far.
  [[nodiscard]] summary pooled() const { return summarize(samples_); }

  [[nodiscard]] core_pair cores() const { return cores_; }

 private:
  struct echo;
  core_pair cores_;
  std::size_t batches_;
  std::size_t calls_;
  std::unique_ptr<echo> echo_;
  std::vector<double> samples_;
};

} // namespace farcall::tool
