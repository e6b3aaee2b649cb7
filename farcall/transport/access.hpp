#pragma once

#include <farcall/base/language.hpp>

#include <string>

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
  /// server_key_list.
  std::string server_key{};
  /// Only on a server: file with the keys of its clients (server/client_file.hpp).
  std::string clients{};
  /// Only on a server: file with the certificates that the authority has revoked.
  std::string revoked{};

  [[nodiscard]] bool is_empty() const noexcept {
    return key.empty() && certificate.empty() && clients.empty();
  }
};

} // namespace farcall
