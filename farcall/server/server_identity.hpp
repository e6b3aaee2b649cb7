// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/server/client_file.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <memory>

namespace farcall {

/// Identity of a server and its clients, as read from its files at one time.
struct server_identity {
  std::shared_ptr<const tcp::tls_identity> own; ///< the server's key or certificate; null if the
                                                ///< server is unencrypted and accepts all clients
  detail::client_table clients;                 ///< clients that have their own keys
};

/// Reads the files of a server, which may have both a key of a group and keys of clients. Throws
/// like make_identity(); logs a warning if the files admit no client.
[[nodiscard]] server_identity make_server_identity(const access& a);

} // namespace farcall
