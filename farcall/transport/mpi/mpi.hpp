// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport_entry.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

/// Transport of messages and copies over MPI, between processes that MPI has started.
namespace farcall::mpi {

/// Makes the transport between the processes of the group in `site`. Initialises MPI if the program
/// has not done so. Then waits at most for `time` until the other processes of the group also make
/// their transports. Throws error, with the reason and the remedy, if MPI cannot be used.
[[nodiscard]] std::unique_ptr<transport> make(const transport_site& site, std::uint32_t ring_bytes,
                                              std::chrono::milliseconds time);

} // namespace farcall::mpi
