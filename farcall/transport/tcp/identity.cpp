#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/identity.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <utility>
#include <vector>

namespace farcall {
namespace {

bool names_certificates(const access& a) noexcept {
  return !a.certificate.empty() || !a.certificate_key.empty() || !a.authority.empty() ||
         !a.server_key.empty() || !a.revoked.empty();
}

std::shared_ptr<const tcp::tls_identity> certificates_of(const access& a) {
  if (a.certificate.empty() || a.certificate_key.empty() ||
      (a.authority.empty() && a.server_key.empty())) {
    throw setting_error("certificates need three files: the certificate, its key and the "
                        "authority's certificate; a host can name the server's public key "
                        "(FARCALL_SERVER_KEY) in place of the last");
  }
  return tcp::tls_identity::with_certificates(
      {a.certificate, a.certificate_key, a.authority, a.revoked, a.server_key});
}

} // namespace

void refuse_certificates(const access& a) {
  if (names_certificates(a)) {
    throw setting_error("a key and certificates were given; choose one of them");
  }
}

std::shared_ptr<const tcp::tls_identity> make_identity(const access& a) {
  if (a.is_empty() && !names_certificates(a)) return nullptr;
  if (a.key.empty()) return certificates_of(a);
  refuse_certificates(a);
  std::vector<tcp::named_key> keys;
  keys.push_back(tcp::read_key_file(a.key));
  return tcp::tls_identity::with_keys(std::move(keys));
}

} // namespace farcall
