// SPDX-License-Identifier: Apache-2.0

// The transport ucx as a module, which programs load with
// FARCALL_TRANSPORT_MODULES=libfarcall-ucx.so.

#include <farcall/transport/transport_module.hpp>
#include <farcall/transport/ucx/entry.hpp>

FARCALL_TRANSPORT_MODULE(&farcall::ucx::entry);
