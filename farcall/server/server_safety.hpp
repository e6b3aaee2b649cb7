// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/server/server.hpp>

namespace farcall::detail {

/// Throws setting_error, which names the missing option, if a server with these options must not
/// listen. An unencrypted server needs the option `plain` to listen at a TCP port, and also
/// `trusts_network` if that port can be reached from other machines. Also throws setting_error if
/// an encrypted server has the option `plain`.
void require_safe(const server_options& o, bool is_encrypted);

} // namespace farcall::detail
