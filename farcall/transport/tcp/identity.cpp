#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/tcp/client_quota.hpp>
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

void require_one_kind(const access& a) {
  if (names_certificates(a)) {
    throw setting_error("a key and certificates were given; choose one of them");
  }
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

std::shared_ptr<const tcp::tls_identity> make_identity(const access& a) {
  if (a.is_empty() && !names_certificates(a)) return nullptr;
  if (a.key.empty()) return certificates_of(a);
  require_one_kind(a);
  std::vector<tcp::named_key> keys;
  keys.push_back(tcp::read_key_file(a.key));
  return tcp::tls_identity::with_keys(std::move(keys));
}

server_identity make_server_identity(const access& a) {
  if (a.key.empty() && a.clients.empty()) return {make_identity(a), {}};
  require_one_kind(a);
  tcp::client_file file;
  if (!a.clients.empty()) {
    file = tcp::read_client_file(a.clients);
    tcp::warn_of_unusable_cpus(a.clients, file.clients);
  }
  if (!a.key.empty()) {
    file.keys.push_back(tcp::read_key_file(a.key));
    if (const std::string& name = file.keys.back().name; !name.empty()) file.clients[name];
  }
  // No error: clients may be added to the file at any time.
  if (file.keys.empty()) {
    log::warning("client file " + a.clients +
                 " has no client, so nobody can come in; add lines that 'farcall keygen --name' "
                 "makes, and send the server SIGHUP");
  }
  return {tcp::tls_identity::with_keys(std::move(file.keys)), std::move(file.clients)};
}

} // namespace farcall
