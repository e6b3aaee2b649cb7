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

/// Of one connection: what it is for, and who the client says it is, as the accepting end learns
/// during the handshake.
struct key_claim {
  std::string context; ///< behind the name of the key, in its identity; may be empty
  std::string offered; ///< the connecting end's identity, while it shakes hands
  const std::string* client = nullptr; ///< of the key that is used, in the identity
  std::string unknown;                 ///< that there is no key for: as text, shortened
  bool is_for_another = false;         ///< the key is known, and used for something else
};

/// OpenSSL's side of an identity. Neither copied nor moved: the context points to it.
class tls_identity::impl {
 public:
  /// A context with what both kinds of identity have in common. Throws error.
  impl();

  void use_key(std::string identity, std::string client, secret key);
  void use_keys(std::vector<named_key> keys);
  void use_certificates(const certificate_files& files);

  [[nodiscard]] SSL_CTX* context() const noexcept { return context_.get(); }
  /// True: keys; false: certificates.
  [[nodiscard]] bool has_key() const noexcept { return has_key_; }
  /// The client whose key a connecting side offers; empty: it has that of a group.
  [[nodiscard]] const std::string& own_name() const noexcept;
  /// There are clients, so that one whose key is unknown may be no longer among them.
  [[nodiscard]] bool knows_clients() const noexcept { return knows_clients_; }

  /// Has a connection fail whose other end has no certificate for that name or address. Throws
  /// error.
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
  std::vector<digest> pinned_; ///< of the public keys that a server may have
};

} // namespace farcall::tcp
