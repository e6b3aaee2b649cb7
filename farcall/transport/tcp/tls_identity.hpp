#pragma once

#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <memory>
#include <string>

#include <openssl/ssl.h>

namespace farcall::tcp {

/// OpenSSL's side of an identity. Neither copied nor moved: the context points to it.
class tls_identity::impl {
 public:
  /// A context with what both kinds of identity have in common. Throws error.
  impl();

  void use_key(std::string identity, secret key);
  void use_certificates(const std::string& certificate_file, const std::string& key_file,
                        const std::string& authority_file);

  [[nodiscard]] SSL_CTX* context() const noexcept { return context_.get(); }
  /// True: a key; false: certificates.
  [[nodiscard]] bool has_key() const noexcept { return !identity_.empty(); }

 private:
  static int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                       std::size_t* identity_size, SSL_SESSION** session) noexcept;
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_size,
                      SSL_SESSION** session) noexcept;
  [[nodiscard]] SSL_SESSION* key_session(SSL* ssl) const noexcept;

  struct free_context {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, free_context> context_;
  std::string identity_;
  secret key_;
};

} // namespace farcall::tcp
