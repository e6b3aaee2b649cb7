// SPDX-License-Identifier: Apache-2.0

// The pipe transport as a module, which programs load.

#include "pipe_transport.hpp"

#include <farcall/transport/transport_module.hpp>

FARCALL_TRANSPORT_MODULE(&farcall::pipes::entry);
