// SPDX-License-Identifier: Apache-2.0

// Costs of a call that is a launch.

#include "session.hpp"

#include <bench/gpu/launch_variants.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace farcall::bench {
namespace {

void measure(session& s, const gpu::launch_variant& variant, const std::function<void()>& call) {
  if (variant.launches == 1) {
    s.latency(variant.name, call, {.kind = row_kind::launch});
    return;
  }
  s.watch.expect(variant.name);
  std::vector<double> rates = gpu::sample(s.asked.choose(200, 30), call);
  for (double& r : rates)
    r = static_cast<double>(variant.launches) * 1e9 / r;
  s.out.add_rate(variant.name, std::move(rates));
}

} // namespace

void measure_launches(session& s) {
  if (!s.is_gpu()) return;
  s.out.begin("launches");
  gpu::visit_launches([&s](const auto& variant, const auto& call) { measure(s, variant, call); });
}

} // namespace farcall::bench
