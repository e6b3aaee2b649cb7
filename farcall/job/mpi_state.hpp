// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall {

/// An MPI library in this process may use the same connection to the process manager (PMI 1) as
/// farcall. This state tells which messages the MPI library may have sent already, or may still
/// send.
enum class mpi_state {
  absent,      ///< the process has no MPI library, or its MPI library does not use PMI 1
  not_started, ///< MPI_Init may follow
  running,     ///< MPI_Finalize is to follow
  ended        ///< after MPI_Finalize
};

/// Returns the state of the MPI library that this process is linked with, or has loaded. Open MPI
/// counts as absent, because it uses PMIx.
[[nodiscard]] mpi_state state_of_mpi() noexcept;

} // namespace farcall
