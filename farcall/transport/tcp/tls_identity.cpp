#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/tls_identity.hpp>

#include <cstring>
#include <string_view>
#include <utility>

#include <openssl/err.h>
#include <openssl/pem.h>

namespace farcall::tcp {
namespace {

constexpr std::size_t longest_identity = 128;
constexpr std::size_t largest_key_file = std::size_t{64} << 10;
constexpr const char* cipher_name = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char cipher_number[] = {0x13, 0x01};

/// A session made for a key counts as resumed, and must come from the context it is used in.
constexpr unsigned char session_context[] = "farcall";

/// Takes OpenSSL's reasons of this thread off their queue, the last one as text.
std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(code);
  ERR_clear_error();
  return text != nullptr ? text : "no reason given";
}

void check(bool good, const char* what) {
  if (!good) throw error(std::string("OpenSSL cannot ") + what + ": " + openssl_reason());
}

struct free_bio {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
};
struct free_key {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};

} // namespace

tls_identity::impl::impl() {
  // Streams may live longer than main(), so OpenSSL must not clean up at exit.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ERR_clear_error();
  context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = context_.get();
  check(context != nullptr, "make a context");
  check(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
            SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1,
        "use TLS 1.3");
  check(SSL_CTX_set_ciphersuites(context, cipher_name) == 1, "use AES-128-GCM");
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_early_data(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  check(SSL_CTX_set_session_id_context(context, session_context, sizeof session_context) == 1,
        "name its sessions");
  SSL_CTX_set_app_data(context, this);
}

void tls_identity::impl::use_key(std::string identity, secret key) {
  if (identity.empty() || identity.size() > longest_identity ||
      identity.find('\0') != std::string::npos) {
    throw setting_error("the name of a key has 1 to " + std::to_string(longest_identity) +
                        " characters; this one has " + std::to_string(identity.size()));
  }
  if (key.bytes().size() != key_bytes) {
    throw setting_error("the key \"" + identity + "\" has " + std::to_string(key.bytes().size()) +
                        " bytes instead of " + std::to_string(key_bytes));
  }
  identity_ = std::move(identity);
  key_ = std::move(key);
  SSL_CTX_set_psk_use_session_callback(context(), &offer_key);
  SSL_CTX_set_psk_find_session_callback(context(), &find_key);
  // Without this a client would take any server that shows some certificate instead of the key.
  SSL_CTX_set_verify(context(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     [](int, X509_STORE_CTX*) { return 0; });
}

SSL_SESSION* tls_identity::impl::key_session(SSL* ssl) const noexcept {
  const auto* key = reinterpret_cast<const unsigned char*>(key_.bytes().data());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, cipher_number);
  SSL_SESSION* session = SSL_SESSION_new();
  if (cipher != nullptr && session != nullptr &&
      SSL_SESSION_set1_master_key(session, key, key_.bytes().size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set1_id_context(session, session_context, sizeof session_context) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int tls_identity::impl::offer_key(SSL* ssl, const EVP_MD* /*digest*/,
                                  const unsigned char** identity, std::size_t* identity_size,
                                  SSL_SESSION** session) noexcept {
  const auto& self = *static_cast<const impl*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  *session = self.key_session(ssl);
  if (*session == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(self.identity_.data());
  *identity_size = self.identity_.size();
  return 1;
}

int tls_identity::impl::find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_size,
                                 SSL_SESSION** session) noexcept {
  const auto& self = *static_cast<const impl*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  *session = nullptr;
  // For another name there is no key, and nothing else to go on with: the handshake fails.
  if (std::string_view(reinterpret_cast<const char*>(identity), identity_size) != self.identity_) {
    return 1;
  }
  *session = self.key_session(ssl);
  return *session != nullptr ? 1 : 0;
}

void tls_identity::impl::use_certificates(const std::string& certificate_file,
                                          const std::string& key_file,
                                          const std::string& authority_file) {
  const secret key_text = read_private_file(key_file, largest_key_file);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context(), certificate_file.c_str()) != 1) {
    throw setting_error("certificate file " + certificate_file + " cannot be used: " +
                        openssl_reason() + "; it must be a file in PEM format");
  }
  const std::unique_ptr<BIO, free_bio> text(
      BIO_new_mem_buf(key_text.bytes().data(), static_cast<int>(key_text.bytes().size())));
  check(text != nullptr, "read a key");
  // The callback keeps OpenSSL from asking for a pass phrase at the terminal.
  const std::unique_ptr<EVP_PKEY, free_key> key(PEM_read_bio_PrivateKey(
      text.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
  if (!key) {
    throw setting_error("key file " + key_file + " cannot be used: " + openssl_reason() +
                        "; it must be a private key in PEM format without a pass phrase");
  }
  if (SSL_CTX_use_PrivateKey(context(), key.get()) != 1 ||
      SSL_CTX_check_private_key(context()) != 1) {
    throw setting_error("key file " + key_file + " does not belong to certificate file " +
                        certificate_file + ": " + openssl_reason());
  }
  if (SSL_CTX_load_verify_locations(context(), authority_file.c_str(), nullptr) != 1) {
    throw setting_error("authority file " + authority_file + " cannot be used: " +
                        openssl_reason() + "; it must hold certificates in PEM format");
  }
  SSL_CTX_set_verify(context(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

tls_identity::tls_identity(std::unique_ptr<impl> inside) noexcept : inside_(std::move(inside)) {}
tls_identity::~tls_identity() = default;

std::shared_ptr<const tls_identity> tls_identity::with_key(std::string identity, secret key) {
  auto inside = std::make_unique<impl>();
  inside->use_key(std::move(identity), std::move(key));
  return std::make_shared<const tls_identity>(std::move(inside));
}

std::shared_ptr<const tls_identity>
tls_identity::with_certificates(const std::string& certificate_file, const std::string& key_file,
                                const std::string& authority_file) {
  auto inside = std::make_unique<impl>();
  inside->use_certificates(certificate_file, key_file, authority_file);
  return std::make_shared<const tls_identity>(std::move(inside));
}

} // namespace farcall::tcp
