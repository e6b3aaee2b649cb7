#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <memory>

#include <mpi.h>

namespace farcall::mpi {

/// The communicator that a job's messages go over, and nobody else's.
struct world {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::uint64_t number = 0; ///< the same in all its processes, and in no other communicator
};

/// That of a job's processes: the one that the job was given, or a duplicate of MPI_COMM_WORLD,
/// which is made once. All of them do so, and wait for each other until `deadline`. It stays until
/// MPI is finalised: what is on its way may arrive later, and belong to nobody then. Throws error.
[[nodiscard]] std::shared_ptr<const world> find_world(const group_place& here, time_point deadline);

} // namespace farcall::mpi
