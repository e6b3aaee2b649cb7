#pragma once

#include <string>

#include <openssl/x509.h>

namespace farcall::tcp {

/// Why a TLS connection failed; words are made of it only when somebody asks.
struct tls_failure {
  bool happened = false;
  bool in_handshake = false;
  bool has_key = false;     ///< rather than certificates
  bool no_key_used = false; ///< the handshake would have ended without the key
  bool cut_off = false;     ///< the connection ended without close_notify
  int socket_reason = 0;    ///< errno value
  int openssl_reason = 0;   ///< SSL_R_...
  long verify_result = X509_V_OK;
  std::string client;          ///< whose key we have offered
  std::string server;          ///< name that the other side's certificate should be for
  std::string unknown;         ///< identity that we have no key for
  std::string context;         ///< what the connection is for
  bool is_for_another = false; ///< the other side says that it is for something else
  bool has_clients = false;    ///< we take clients by name
};

/// For the user; never key material.
[[nodiscard]] std::string words(const tls_failure& why);

/// The other side has ended the connection, out of order.
[[nodiscard]] bool is_broken_off(const tls_failure& why) noexcept;

} // namespace farcall::tcp
