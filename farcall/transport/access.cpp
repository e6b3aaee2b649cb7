// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/transport/access.hpp>

namespace farcall {
namespace {

/// Number of letters that BASE64 has for a SHA-256, with the "=" at the end.
constexpr std::size_t letters_of_digest = 44;

bool is_server_key(std::string_view text) {
  constexpr const char* letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return text.size() == server_key_prefix.size() + letters_of_digest &&
         text.starts_with(server_key_prefix) &&
         text.find_first_not_of(letters, server_key_prefix.size()) == text.size() - 1 &&
         text.back() == '=';
}

} // namespace

void refuse_certificates(const access& a) {
  if (a.names_certificates()) {
    throw setting_error("a key and certificates were given; choose one of them");
  }
}

void check_access(const access& a) {
  if (!a.key.empty()) return refuse_certificates(a);
  if (!a.names_certificates()) return;
  if (a.certificate.empty() || a.certificate_key.empty() ||
      (a.authority.empty() && a.server_key.empty())) {
    throw setting_error("certificates need three files: the certificate, its key and the "
                        "authority's certificate; a host can name the server's public key "
                        "(FARCALL_SERVER_KEY) in place of the last");
  }
  if (!a.server_key.empty()) check_server_keys(a.server_key);
}

void check_server_keys(const std::string& list) {
  for (const std::string& text : split(list, ',')) {
    if (is_server_key(text)) continue;
    throw setting_error("\"" + text +
                        "\" is no public key of a server; give \"sha256:\" and 44 letters of "
                        "BASE64, as 'farcall serve' prints it where it starts");
  }
}

} // namespace farcall
