// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/ucx/entry.hpp>
#include <farcall/transport/ucx/ucx.hpp>
#include <farcall/transport/ucx/worker.hpp>

#include <algorithm>
#include <utility>

namespace farcall::ucx {
namespace {

/// Factor by which rings are larger than in shared memory, so that longer messages fit a record. A
/// message that does not fit a record costs another round trip.
constexpr std::uint32_t ring_factor = 4;

std::vector<availability> available() {
  try {
    std::string text = "processes that UCX " + library_version() + " reaches, over";
    for (const std::string& r : find_resources().all)
      text += " " + r;
    return {{"ucx", true, text}};
  } catch (const error& e) {
    return {{"ucx", false, e.what()}};
  }
}

std::unique_ptr<transport> make_here(transport_site& site) {
  options o;
  o.self = site.self;
  o.nodes = site.nodes;
  o.ring_bytes = std::min(site.lane_bytes * ring_factor, static_cast<std::uint32_t>(max_ring));
  o.machine = site.machine;
  o.doorbells = site.doorbells;
  o.windows = site.windows;
  try {
    return ucx::make(std::move(o));
  } catch (const error& e) {
    // Continue without this transport. A node that can only be reached by UCX is refused later. All
    // other nodes have another route.
    log::warning(e.what());
    return nullptr;
  }
}

} // namespace

transport_entry entry() {
  transport_entry row;
  row.scheme = "ucx";
  row.example = "ucx:2";
  row.options = {cpu_option(), program_option()};
  row.read_place = &read_count;
  row.available = &available;
  row.make = &make_here;
  return row;
}

} // namespace farcall::ucx
