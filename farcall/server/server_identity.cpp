// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log.hpp>
#include <farcall/server/client_quota.hpp>
#include <farcall/server/server_identity.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/tcp/identity.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <string>
#include <utility>

namespace farcall {

server_identity make_server_identity(const access& a) {
  if (a.key.empty() && a.clients.empty()) return {make_identity(a), {}};
  refuse_certificates(a);
  detail::client_file file;
  if (!a.clients.empty()) {
    file = detail::read_client_file(a.clients);
    detail::warn_of_unusable_cpus(a.clients, file.clients);
  }
  if (!a.key.empty()) {
    file.keys.push_back(tcp::read_key_file(a.key));
    if (const std::string& name = file.keys.back().name; !name.empty()) file.clients[name];
  }
  // Log a warning instead of throwing, because clients may be added to the file while the server
  // runs.
  if (file.keys.empty()) {
    log::warning("client file " + a.clients +
                 " has no client, so nobody can come in; add lines that 'farcall keygen --name' "
                 "makes, and send the server SIGHUP");
  }
  return {tcp::tls_identity::with_keys(std::move(file.keys)), std::move(file.clients)};
}

} // namespace farcall
