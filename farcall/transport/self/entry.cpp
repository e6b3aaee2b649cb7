// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/self/entry.hpp>
#include <farcall/transport/self/self.hpp>

namespace farcall::self {

transport_entry entry() {
  transport_entry row;
  row.scheme = scheme;
  row.available = [] {
    return std::vector<availability>{{scheme, true, "calls of a node to itself"}};
  };
  row.make = [](transport_site& site) {
    return self::make({site.self, site.lane_bytes, site.doorbells});
  };
  return row;
}

} // namespace farcall::self
