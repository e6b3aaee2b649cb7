#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstdint>
#include <memory>

#include <mpi.h>
#include <sys/types.h>

namespace farcall::mpi {

/// Frees a communicator when it goes, if MPI can be called then; a child of a fork leaves it alone.
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

/// The communicator that a job's messages go over, and nobody else's.
struct world {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::uint64_t number = 0; ///< the same in all its processes, and in no other communicator
  /// Users of the communicator hold its owner. Empty for the duplicate of MPI_COMM_WORLD.
  std::weak_ptr<const owned_communicator> owner{};
};

/// The world of a job's processes: a duplicate of the communicator that the job was given, or of
/// MPI_COMM_WORLD, which is made once. All of them do so, and wait for each other until `deadline`.
/// The duplicate of MPI_COMM_WORLD stays until MPI is finalised, another one until the program
/// frees its communicator and no job uses it any more: messages on their way may arrive later, and
/// have no receiver then. Throws error.
[[nodiscard]] std::shared_ptr<const world> find_world(const group_place& here, time_point deadline);

} // namespace farcall::mpi
