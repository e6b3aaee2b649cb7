// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <optional>

namespace farcall {

/// Place of a process in its process group. Something other than the host has started the group,
/// for instance mpirun. The process with rank N becomes node N of the job.
struct group_place {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  /// MPI communicator of the group's processes, as an integer from MPI_Comm_c2f. The transport uses
  /// a duplicate of this communicator. If empty, the communicator is MPI_COMM_WORLD.
  std::optional<std::int32_t> communicator;
};

} // namespace farcall
