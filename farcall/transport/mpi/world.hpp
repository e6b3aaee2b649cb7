// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <memory>

#include <mpi.h>
#include <sys/types.h>

namespace farcall::mpi {

/// Owner of a communicator. Its destructor frees the communicator if the calling thread may still
/// call MPI; in a child of a fork, the destructor does nothing.
class owned_communicator {
 public:
  explicit owned_communicator(MPI_Comm communicator) noexcept;
  owned_communicator(const owned_communicator&) = delete;
  owned_communicator& operator=(const owned_communicator&) = delete;
  ~owned_communicator();

 private:
  MPI_Comm communicator_;
  pid_t process_;
};

/// A communicator that is used only for the messages of jobs.
struct world {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  /// Random number of the communicator, which is the same in all its processes, and different from
  /// the numbers of other communicators.
  std::uint64_t number = 0;
  /// Owner of the communicator, which frees the communicator when no user holds it any more. Empty
  /// for the duplicate of MPI_COMM_WORLD, which stays until MPI is finalised.
  std::weak_ptr<const owned_communicator> owner{};
};

/// Returns the communicator for the messages of a job's processes. It is a duplicate of the
/// communicator that the job was given. If the job was given none, it is the duplicate of
/// MPI_COMM_WORLD, which is made once. The call is collective: the processes wait for each other
/// until `deadline`. The duplicate of MPI_COMM_WORLD stays until MPI is finalised. Any other
/// duplicate stays as long as a job uses it, and at least until the program frees the original
/// communicator, because messages may arrive after their receiver has ended. Throws error.
[[nodiscard]] std::shared_ptr<const world> find_world(const group_place& here, time_point deadline);

} // namespace farcall::mpi
