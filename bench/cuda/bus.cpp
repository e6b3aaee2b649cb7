// SPDX-License-Identifier: Apache-2.0

// Costs of the parts of a round trip, which show where the time of a call is spent.

#include "session.hpp"

#include <bench/gpu/bus_probes.hpp>

#include <string>
#include <utility>
#include <vector>

namespace farcall::bench {

void measure_bus(session& s) {
  if (!s.is_gpu()) return;
  s.out.begin("bus");
  s.watch.expect("the parts of a round trip");
  const gpu::clock_rate rate = gpu::visit_bus_probes(
      s.asked.choose(8, 2), [&s](const std::string& what, std::vector<double> ns) {
        s.out.add_duration(what, std::move(ns));
        s.watch.tick();
      });
  s.out.add({.what = "clock of a multiprocessor",
             .unit = "MHz",
             .value = summarize({1000 * rate.cycles_per_ns})});
  s.out.add_duration("step of globaltimer", {rate.timer_step_ns});
}

} // namespace farcall::bench
