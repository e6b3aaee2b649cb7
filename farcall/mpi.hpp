// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/job.hpp>

#include <string>

#include <mpi.h>

/// Makes jobs of the processes of an MPI program, which goes on using MPI. All code is in this
/// header, because the library of farcall is not linked with MPI.
namespace farcall {
namespace detail {

inline void require_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int bytes = 0;
  if (MPI_Error_string(status, text, &bytes) != MPI_SUCCESS) bytes = 0;
  throw error(std::string(what) + " failed: " + std::string(text, static_cast<std::size_t>(bytes)));
}

} // namespace detail

/// Returns the processes of a communicator as a group, from which a job can be made. MPI must be
/// initialised, and all processes of the communicator must make the job. The thread that makes the
/// job broadcasts over the communicator during this time. For the transport mpi, it also duplicates
/// the communicator; the duplicate is freed with the communicator. Throws error.
[[nodiscard]] inline process_group group_of(MPI_Comm communicator) {
  int rank = 0;
  int size = 0;
  detail::require_mpi(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  detail::require_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  process_group group;
  group.communicator = MPI_Comm_c2f(communicator);
  group.name = "MPI";
  group.rank = static_cast<node_id>(rank);
  group.size = static_cast<std::uint32_t>(size);
  group.broadcast = [communicator](const std::string& of_host, time_point /*deadline*/) {
    std::string bytes = of_host;
    unsigned long long count = bytes.size();
    detail::require_mpi(MPI_Bcast(&count, 1, MPI_UNSIGNED_LONG_LONG, 0, communicator), "MPI_Bcast");
    bytes.resize(count);
    detail::require_mpi(MPI_Bcast(bytes.data(), static_cast<int>(count), MPI_BYTE, 0, communicator),
                        "MPI_Bcast");
    return bytes;
  };
  return group;
}

/// With this specialisation, `fc::job job{MPI_COMM_WORLD};` makes a job of equals, in which rank N
/// is node N.
template <>
struct group_traits<MPI_Comm> {
  /// Calls farcall::group_of(), and throws what this function throws.
  [[nodiscard]] static process_group group_of(MPI_Comm communicator) {
    return farcall::group_of(communicator);
  }
};

} // namespace farcall
