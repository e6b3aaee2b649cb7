// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/identity.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <utility>
#include <vector>

namespace farcall {

std::shared_ptr<const tcp::tls_identity> make_identity(const access& a) {
  if (a.is_empty() && !a.names_certificates()) return nullptr;
  check_access(a);
  if (a.key.empty()) {
    return tcp::tls_identity::with_certificates(
        {a.certificate, a.certificate_key, a.authority, a.revoked, a.server_key});
  }
  std::vector<tcp::named_key> keys;
  keys.push_back(tcp::read_key_file(a.key));
  return tcp::tls_identity::with_keys(std::move(keys));
}

} // namespace farcall
