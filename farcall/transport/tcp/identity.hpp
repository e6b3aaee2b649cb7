#pragma once

#include <farcall/transport/access.hpp>
#include <farcall/transport/tcp/client_file.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <memory>

namespace farcall {

/// Reads the files; null for empty access. Throws setting_error for files that are missing or open
/// to others, and for an incomplete set of certificates. Leaves out the file of clients, which is
/// for servers.
[[nodiscard]] std::shared_ptr<const tcp::tls_identity> make_identity(const access& a);

/// Whom a server takes, as its files say at one time.
struct server_identity {
  std::shared_ptr<const tcp::tls_identity> own; ///< null: everybody
  tcp::client_table clients;                    ///< those who have keys of their own
};

/// The same for a server: a key of a group and those of clients may be given together. Throws
/// setting_error, and logs a warning where the files let nobody in.
[[nodiscard]] server_identity make_server_identity(const access& a);

} // namespace farcall
