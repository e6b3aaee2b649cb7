// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::mpi {

/// Returns the table row of the transport mpi. This transport does not start targets, but connects
/// targets that MPI has started.
[[nodiscard]] transport_entry entry();

} // namespace farcall::mpi
