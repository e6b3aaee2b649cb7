#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// What the parts of a round trip over the bus cost, each by itself: plain kernels on the current
/// device, which has to be idle, with nothing of farcall's protocol.
namespace farcall::gpu {

/// Gets the nanoseconds that each of many repetitions has taken.
using probe_visitor = std::function<void(const std::string& what, std::vector<double> ns)>;

/// How far two clocks went at the same time.
struct clock_rate {
  double cycles_per_ns = 0; ///< of a multiprocessor's clock, which the probes are timed by
  double timer_step_ns = 0; ///< of %globaltimer
};

/// Visits all probes, `rounds` launches each. CUDA's errors are std::runtime_error.
clock_rate visit_bus_probes(std::size_t rounds, const probe_visitor& visit);

} // namespace farcall::gpu
