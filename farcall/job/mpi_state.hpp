#pragma once

namespace farcall {

/// What an MPI library in this process may have said to the process manager, or may still say.
enum class mpi_state {
  absent,      ///< there is no such library, or none that speaks PMI 1
  not_started, ///< MPI_Init may follow
  running,     ///< MPI_Finalize is to follow
  ended        ///< after MPI_Finalize
};

/// Asks the MPI library that this process is linked with, or has loaded. Open MPI's is none in this
/// sense: it speaks PMIx.
[[nodiscard]] mpi_state state_of_mpi() noexcept;

} // namespace farcall
