// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/ssl.h>

namespace farcall::tcp {

/// Data of one handshake with a key: the identities and names that occur in it, and the purpose of
/// the connection.
struct key_claim {
  /// Purpose of the connection. The connecting end adds it to the key's identity. May be empty.
  std::string context;
  std::string offered; ///< identity that this end sends if it connects
  /// At the accepting end: name of the client whose key is in use. Owned by the tls_identity.
  const std::string* client = nullptr;
  /// At the accepting end: identity that the client has sent, shortened, if there is no key for it.
  std::string unknown;
  /// At the accepting end: true if there is a key for the client's identity, but the client names
  /// another purpose.
  bool is_for_another = false;
};

/// OpenSSL's side of an identity. The object is neither copied nor moved, because OpenSSL's context
/// points to it.
class tls_identity::impl {
 public:
  /// Makes an OpenSSL context with the settings that both kinds of identity need. Throws error.
  impl();

  void use_key(std::string identity, std::string client, secret key);
  void use_keys(std::vector<named_key> keys);
  void use_certificates(const certificate_files& files);

  [[nodiscard]] SSL_CTX* context() const noexcept { return context_.get(); }
  /// True if the identity has keys, and false if it has certificates.
  [[nodiscard]] bool has_key() const noexcept { return has_key_; }
  /// Returns the name of the client whose key a connecting end offers; empty for the key of a
  /// group.
  [[nodiscard]] const std::string& own_name() const noexcept;
  /// True if some keys belong to named clients. An unknown key may then be the key of a client that
  /// was removed.
  [[nodiscard]] bool knows_clients() const noexcept { return knows_clients_; }

  /// Makes the handshake fail unless the peer's certificate is for this name or address. Does
  /// nothing if the identity has keys or pinned public keys, or the name is empty. Throws error.
  void expect_server(SSL* ssl, const std::string& name) const;
  [[nodiscard]] std::string own_public_key() const;

 private:
  using digest = std::array<unsigned char, 32>;
  struct key_of {
    std::string client;
    secret key;
  };

  static int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                       std::size_t* identity_size, SSL_SESSION** session) noexcept;
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_size,
                      SSL_SESSION** session) noexcept;
  [[nodiscard]] static SSL_SESSION* key_session(SSL* ssl, const secret& key) noexcept;
  [[nodiscard]] static digest digest_of(std::span<const std::byte> bytes);
  [[nodiscard]] static digest digest_of(X509* certificate);
  static int check_pinned(X509_STORE_CTX* chain, void* self) noexcept;
  void begin_keys();
  void load_authority(const std::string& file);
  void load_revoked(const std::string& file);
  void pin(const std::string& server_keys);

  struct free_context {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, free_context> context_;
  std::map<std::string, key_of, std::less<>> keys_; ///< by identity
  bool has_key_ = false;
  bool knows_clients_ = false;
  bool has_authority_ = false;
  std::vector<digest> pinned_; ///< hashes of the public keys that a server may have
};

} // namespace farcall::tcp
