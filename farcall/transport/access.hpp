// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <string>
#include <string_view>

namespace farcall {

/// Credentials by which a host and a server prove themselves to each other: a key that both have,
/// or certificates of one authority. All members except `server_key` are names of files. If key,
/// clients and certificate are all empty, neither side proves anything, and connections are not
/// encrypted.
struct access {
  std::string key{};
  std::string certificate{};
  std::string certificate_key{};
  std::string authority{};
  /// Public keys of servers that the host accepts, from the setting `server-key`; see
  /// check_server_keys().
  std::string server_key{};
  /// Only on a server: file with the keys of its clients (server/client_file.hpp).
  std::string clients{};
  /// Only on a server: file with the certificates that the authority has revoked.
  std::string revoked{};

  [[nodiscard]] bool is_empty() const noexcept {
    return key.empty() && certificate.empty() && clients.empty();
  }
  [[nodiscard]] bool names_certificates() const noexcept {
    return !certificate.empty() || !certificate_key.empty() || !authority.empty() ||
           !server_key.empty() || !revoked.empty();
  }
};

/// Throws setting_error if `a` names certificates. Meant for credentials that name keys, because
/// both cannot be used together.
void refuse_certificates(const access& a);

/// Throws setting_error if a host cannot use the credentials together: if `a` names a key and
/// certificates, if the set of certificates is incomplete, or if `server_key` is malformed. Reads
/// no file.
void check_access(const access& a);

/// Prefix of a server's public key in a list of such keys.
inline constexpr std::string_view server_key_prefix = "sha256:";

/// Throws setting_error unless the text is a list of public keys of servers: "sha256:" and a
/// SHA-256 in BASE64 for each, separated by commas.
void check_server_keys(const std::string& list);

} // namespace farcall
