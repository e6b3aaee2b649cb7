#pragma once

#include <farcall/transport/access.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <memory>

namespace farcall {

/// Reads the files; null for empty access. Throws setting_error for files that are missing or open
/// to others, and for an incomplete set of certificates.
[[nodiscard]] std::shared_ptr<const tcp::tls_identity> make_identity(const access& a);

} // namespace farcall
