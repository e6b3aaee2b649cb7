// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

/// Costs of the parts of a round trip over the bus, each by itself: plain kernels on the current
/// device, which must be idle, without farcall's protocol.
namespace farcall::gpu {

/// Called with the nanoseconds of each of many repetitions.
using probe_visitor = std::function<void(const std::string& what, std::vector<double> ns)>;

/// Progress of two clocks in the same time.
struct clock_rate {
  double cycles_per_ns = 0; ///< of the multiprocessor's clock, which times the probes
  double timer_step_ns = 0; ///< of %globaltimer
};

/// Visits all probes, with `rounds` launches each. Errors of CUDA throw std::runtime_error.
clock_rate visit_bus_probes(std::size_t rounds, const probe_visitor& visit);

} // namespace farcall::gpu
