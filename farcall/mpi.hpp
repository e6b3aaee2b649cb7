#pragma once

#include <farcall/base/error.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/job.hpp>

#include <string>

#include <mpi.h>

/// Jobs of programs that are MPI programs already, and go on using MPI beside farcall. A header and
/// nothing else: farcall itself is not linked with MPI.
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

/// The processes of a communicator, which MPI has been initialised for, as makers of one job. While
/// the job is made, on the thread that makes it, the job makes a broadcast over the communicator,
/// and, for the transport mpi, a duplicate, which is freed with the communicator. All processes of
/// the communicator make the job. Throws error.
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

/// As in `fc::job job{MPI_COMM_WORLD};`: a job of equals, in which rank N is node N.
template <>
struct group_traits<MPI_Comm> {
  /// Makes the group by farcall::group_of(), which says what it throws.
  [[nodiscard]] static process_group group_of(MPI_Comm communicator) {
    return farcall::group_of(communicator);
  }
};

} // namespace farcall
