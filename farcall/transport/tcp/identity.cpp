#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/identity.hpp>
#include <farcall/transport/tcp/secret.hpp>

namespace farcall {

std::shared_ptr<const tcp::tls_identity> make_identity(const access& a) {
  if (a.is_empty() && a.certificate_key.empty() && a.authority.empty()) return nullptr;
  if (!a.key.empty()) {
    if (!a.certificate.empty() || !a.certificate_key.empty() || !a.authority.empty()) {
      throw setting_error("a key and certificates were given; choose one of them");
    }
    return tcp::tls_identity::with_key("farcall", tcp::read_key_file(a.key));
  }
  if (a.certificate.empty() || a.certificate_key.empty() || a.authority.empty()) {
    throw setting_error("certificates need three files: the certificate, its key and the "
                        "authority's certificate");
  }
  return tcp::tls_identity::with_certificates(a.certificate, a.certificate_key, a.authority);
}

} // namespace farcall
