#include "shares.hpp"

#include <bench/report/statistics.hpp>

#include <fmt/format.h>

namespace farcall::tool {

call_shares shares_of(const figure& ring_only, const figure& empty, const figure& two_doubles) {
  return {.ring = ring_only.ns.p50 - ring_only.floor.p50,
          .engine = empty.ns.p50 - ring_only.ns.p50,
          .arguments = two_doubles.ns.p50 - empty.ns.p50};
}

std::string shares_text(const call_shares& s) {
  return fmt::format("ring: ring only - floor = {:.1f} ns; engine: empty - ring only = {:.1f} ns; "
                     "arguments: two doubles - empty = {:.1f} ns\n",
                     s.ring, s.engine, s.arguments);
}

json shares_json(const call_shares& s) {
  return {{"ring", rounded(s.ring)},
          {"engine", rounded(s.engine)},
          {"arguments", rounded(s.arguments)}};
}

} // namespace farcall::tool
