// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/access.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <memory>

namespace farcall {

/// Reads the files with keys or certificates that `a` names. Returns null if `a` is empty. Throws
/// setting_error if a file is missing, if others can read a secret file, or if the set of
/// certificates is incomplete. Ignores the file of clients, which is for servers.
[[nodiscard]] std::shared_ptr<const tcp::tls_identity> make_identity(const access& a);

} // namespace farcall
