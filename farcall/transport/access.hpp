#pragma once

#include <farcall/base/language.hpp>

#include <string>

namespace farcall {

/// What a host and a server prove themselves to each other with: a key that both have, or
/// certificates of one authority. All but `server_key` are names of files. No key, no clients and
/// no certificate: nothing, and connections are unencrypted.
struct access {
  std::string key{};
  std::string certificate{};
  std::string certificate_key{};
  std::string authority{};
  /// Host: public keys that a server may have, as the setting `server-key`; see server_key_list.
  std::string server_key{};
  std::string clients{}; ///< server: keys of clients by name (tcp/client_file.hpp)
  std::string revoked{}; ///< server: a list of certificates that the authority has taken back

  [[nodiscard]] bool is_empty() const noexcept {
    return key.empty() && certificate.empty() && clients.empty();
  }
};

} // namespace farcall
