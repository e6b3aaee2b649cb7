// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <openssl/x509.h>

namespace farcall::tcp {

/// Reason why a TLS connection has failed. The text for users is made by words() only when it is
/// needed.
struct tls_failure {
  bool happened = false;
  bool in_handshake = false;
  bool has_key = false; ///< rather than certificates
  /// True if this end has a key, but the handshake succeeded without the key and was therefore
  /// refused.
  bool no_key_used = false;
  bool is_truncated = false; ///< true if the connection has ended without close_notify
  int socket_reason = 0;     ///< errno value
  int openssl_reason = 0;    ///< SSL_R_...
  long verify_result = X509_V_OK;
  /// Name of the client whose key this end has offered to the server.
  std::string client;
  std::string server; ///< name that the server's certificate must contain
  /// Identity that the client has sent, if this end has no key for it.
  std::string unknown;
  std::string context; ///< purpose of the connection
  /// True if this end has the key that the client names, but the client names another purpose of
  /// the connection.
  bool is_for_another = false;
  bool has_clients = false; ///< clients have names
};

/// Returns a text for users, which never contains key material.
[[nodiscard]] std::string words(const tls_failure& why);

/// True if the peer has ended the connection without an orderly close.
[[nodiscard]] bool is_broken_off(const tls_failure& why) noexcept;

} // namespace farcall::tcp
