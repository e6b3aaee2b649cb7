#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::mpi {

/// The row: it starts no targets, and connects those that MPI has started.
[[nodiscard]] transport_entry entry();

} // namespace farcall::mpi
