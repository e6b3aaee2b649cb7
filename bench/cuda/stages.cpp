// SPDX-License-Identifier: Apache-2.0

// Time of a call inside a worker, by stages, which shows what is worth making faster.

#include "session.hpp"

#include <bench/gpu/call_stages.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace farcall::bench {

void measure_stages(session& s) {
  if (!s.is_gpu()) return;
  constexpr std::array between{"found until served", "served until the handler runs",
                               "a handler that does nothing", "handler's end until the answer"};
  s.out.begin("stages");
  s.watch.expect("the stages of a call");
  gpu::call_stages found = gpu::time_call_stages(std::min<std::size_t>(s.asked.samples, 20'000));
  static_assert(between.size() == std::tuple_size_v<decltype(found.between)>);
  s.out.add_call("empty call of a worker alone", std::move(found.round_trip));
  for (std::size_t i = 0; i < between.size(); ++i)
    s.out.add_duration(between[i], std::move(found.between[i]));
}

} // namespace farcall::bench
