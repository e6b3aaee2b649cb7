#pragma once

#include <farcall/transport/tcp/server.hpp>

namespace farcall::tcp {

/// Throws setting_error, with the option that is missing, unless a server with these options may
/// listen: without a key a port needs a flag, and a port beyond loopback another one.
void require_safe(const server_options& o, bool is_encrypted);

} // namespace farcall::tcp
