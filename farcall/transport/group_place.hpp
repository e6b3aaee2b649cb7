#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <optional>

namespace farcall {

/// The place of a process among those that something else than the host has started, as mpirun.
/// Node N of the job is the one whose rank is N.
struct group_place {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  /// MPI's communicator of these processes, as MPI_Comm_c2f gives it, to be duplicated. Empty
  /// for MPI_COMM_WORLD.
  std::optional<std::int32_t> communicator;
};

} // namespace farcall
