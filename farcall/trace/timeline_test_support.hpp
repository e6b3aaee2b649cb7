// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/trace/timeline.hpp>

#include <cstdint>

namespace farcall::trace {

inline event make(std::uint64_t when, event_kind kind, std::uint32_t lane = 0,
                  std::uint32_t slot = 0, std::uint64_t position = 0, std::uint32_t key = 0) {
  return {
      when, position, std::uint32_t{static_cast<std::uint8_t>(kind)} << event::kind_shift | lane,
      slot, key,      0};
}

/// A call from node 0 at 0.5 µs, which node 1 runs.
inline timeline one_call() {
  timeline t(100);
  batch host;
  host.node = 0;
  host.events.lanes = {{1, 1, true, 0}};
  host.events.threads = {{0,
                          77,
                          "main thread",
                          0,
                          {make(1500, event_kind::call_begin, 1, 0, 64, 16),
                           make(3750, event_kind::call_end, 1, 0, 0, 0)}}};
  t.add(host);
  batch target;
  target.node = 1;
  target.clocks = {{2000, 2000, 10}};
  target.functions = {{16, 0, "solve<\"x\\\">"}};
  target.events.lanes = {{1, 0, false, 1}};
  target.events.threads = {{0,
                            88,
                            "app",
                            3,
                            {make(2000, event_kind::handler_begin, 1, 0, 64, 16),
                             make(3000, event_kind::handler_end, 1, 0, 64, 16)}}};
  t.add(target);
  return t;
}

} // namespace farcall::trace
