#pragma once

#include <farcall/transport/tcp/tls.hpp>

#include <memory>
#include <string>

namespace farcall {

/// What a host and a server prove themselves to each other with: a key that both have, or
/// certificates of one authority. All are names of files. Both empty: nothing, and in the clear.
struct access {
  std::string key;
  std::string certificate;
  std::string certificate_key;
  std::string authority;

  [[nodiscard]] bool is_empty() const noexcept { return key.empty() && certificate.empty(); }
};

/// Reads the files; null for empty access. Throws setting_error for files that are missing or open
/// to others, and for an incomplete set of certificates.
[[nodiscard]] std::shared_ptr<const tcp::tls_identity> make_identity(const access& a);

} // namespace farcall
