// SPDX-License-Identifier: Apache-2.0

// The transport mpi as a module, which programs load with
// FARCALL_TRANSPORT_MODULES=libfarcall-mpi.so.

#include <farcall/transport/mpi/entry.hpp>
#include <farcall/transport/transport_module.hpp>

FARCALL_TRANSPORT_MODULE(&farcall::mpi::entry);
