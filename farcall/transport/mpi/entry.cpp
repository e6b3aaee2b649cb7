// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/mpi/entry.hpp>
#include <farcall/transport/mpi/library.hpp>
#include <farcall/transport/mpi/mpi.hpp>

#include <algorithm>
#include <chrono>

namespace farcall::mpi {
namespace {

/// Factor by which rings are larger than in shared memory, so that longer messages fit a record. A
/// message that does not fit a record costs another round trip.
constexpr std::uint32_t ring_factor = 4;

/// Time within which all processes of the job have to make their transports. The job's own limit is
/// longer, so that the job continues without this transport if a process does not make its own.
constexpr std::chrono::seconds start_time{5};

std::vector<availability> available() {
  try {
    if (const std::string why = why_unusable(); !why.empty()) return {{"mpi", false, why}};
    const std::string with = "processes that " + library_version() + " has started, as mpirun does";
    switch (phase_now()) {
    case phase::ended:
      return {{"mpi", false, "MPI was finalised in this process"}};
    case phase::not_started:
      return {{"mpi", true, with + "; a job of such processes initialises it"}};
    case phase::running:
      (void)thread_level();
      return {{"mpi", true, with + "; initialised with " + level_text()}};
    }
  } catch (const error& e) {
    return {{"mpi", false, e.what()}};
  }
  return {};
}

std::unique_ptr<transport> make_here(transport_site& site) {
  // Return no transport for children of the host and for targets of servers. These processes are in
  // no process group, because MPI has not started them.
  if (!site.group) return nullptr;
  try {
    return mpi::make(site,
                     std::min(site.lane_bytes * ring_factor, static_cast<std::uint32_t>(max_ring)),
                     start_time);
  } catch (const error& e) {
    // Continue without this transport, because the nodes have other routes to each other.
    log::warning(std::string("the transport mpi cannot be used: ") + e.what());
    return nullptr;
  }
}

} // namespace

transport_entry entry() {
  transport_entry row;
  row.scheme = "mpi";
  row.available = &available;
  row.make = &make_here;
  return row;
}

} // namespace farcall::mpi
