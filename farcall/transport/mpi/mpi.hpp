#pragma once

#include <farcall/transport/transport_entry.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

/// Messages and copies over MPI, between processes that MPI has started.
namespace farcall::mpi {

/// Makes the transport of the processes that `site.group` names. Initialises MPI if the program has
/// not, then waits for the other processes, at most for `time`. Throws error if MPI cannot be used,
/// whose text says why and what to do.
[[nodiscard]] std::unique_ptr<transport> make(const transport_site& site, std::uint32_t ring_bytes,
                                              std::chrono::milliseconds time);

} // namespace farcall::mpi
