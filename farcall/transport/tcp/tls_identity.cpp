// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/text.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/tcp/tls_identity.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

namespace farcall::tcp {
namespace {

constexpr std::size_t max_identity = 128;
constexpr std::size_t max_key_file = std::size_t{64} << 10;
constexpr const char* cipher_name = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char cipher_number[] = {0x13, 0x01};

/// Session context, which both ends set to the same value. OpenSSL treats a connection that uses a
/// key as a resumed session, and refuses a session with another context.
constexpr unsigned char session_context[] = "farcall";

/// Returns the last reason in OpenSSL's error queue of this thread as text, and clears the queue.
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
struct free_list {
  void operator()(X509_CRL* list) const noexcept { X509_CRL_free(list); }
};

/// Character between the name of a key and the purpose of the connection.
constexpr char context_mark = '#';

/// Identity that names a group's key, which belongs to no client.
constexpr const char* group_identity = "farcall";

/// Throws setting_error if the file is not regular, because OpenSSL would block on a FIFO until it
/// has a writer.
void require_regular_file(const std::string& file, const char* what) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0)
    throw setting_error(std::string(what) + " " + file +
                        " cannot be opened: " + reason_text(errno));
  if (!S_ISREG(status.st_mode))
    throw setting_error(std::string(what) + " " + file + " is no regular file");
}

bool is_number_of_host(const std::string& host) noexcept {
  unsigned char number[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), number) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), number) == 1;
}

} // namespace

tls_identity::impl::impl() {
  // Disable OpenSSL's cleanup at exit, because streams may live longer than main().
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

void tls_identity::impl::begin_keys() {
  has_key_ = true;
  SSL_CTX_set_psk_use_session_callback(context(), &offer_key);
  SSL_CTX_set_psk_find_session_callback(context(), &find_key);
  // Require that every certificate fails the check. Without this, a client would accept any server
  // that shows some certificate instead of the key.
  SSL_CTX_set_verify(context(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     [](int, X509_STORE_CTX*) { return 0; });
}

void tls_identity::impl::use_key(std::string identity, std::string client, secret key) {
  if (identity.empty() || identity.size() > max_identity ||
      identity.find('\0') != std::string::npos) {
    throw setting_error("the name of a key has 1 to " + std::to_string(max_identity) +
                        " characters; this one has " + std::to_string(identity.size()));
  }
  if (key.bytes().size() != key_bytes) {
    throw setting_error("the key \"" + identity + "\" has " + std::to_string(key.bytes().size()) +
                        " bytes instead of " + std::to_string(key_bytes));
  }
  if (key.is_wiped()) {
    throw setting_error("the key \"" + identity +
                        "\" consists of zeros, which anybody can "
                        "guess; make another one ('farcall keygen')");
  }
  begin_keys();
  if (!keys_.try_emplace(identity, key_of{std::move(client), std::move(key)}).second) {
    throw setting_error("two keys are both called \"" + identity +
                        "\" in handshakes; make another "
                        "one in place of one of them ('farcall keygen')");
  }
}

void tls_identity::impl::use_keys(std::vector<named_key> keys) {
  begin_keys();
  for (named_key& k : keys) {
    std::string identity = group_identity;
    if (!k.name.empty()) {
      // Make the identity from the client's name and some bytes of the key's hash, so that several
      // keys of one client have different identities. These bytes reveal nothing about a random
      // key.
      constexpr std::size_t shown_bytes = 4;
      const digest whole = digest_of(k.key.bytes());
      identity = k.name + '/' + hexadecimal(std::as_bytes(std::span(whole).first(shown_bytes)));
      knows_clients_ = true;
    }
    use_key(std::move(identity), std::move(k.name), std::move(k.key));
  }
}

const std::string& tls_identity::impl::own_name() const noexcept {
  static const std::string none;
  return keys_.size() == 1 ? keys_.begin()->second.client : none;
}

SSL_SESSION* tls_identity::impl::key_session(SSL* ssl, const secret& held) noexcept {
  // Refuse a key of zeros: keys are overwritten with zeros in forked processes.
  if (held.is_wiped()) return nullptr;
  const auto* key = reinterpret_cast<const unsigned char*>(held.bytes().data());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, cipher_number);
  SSL_SESSION* session = SSL_SESSION_new();
  if (cipher != nullptr && session != nullptr &&
      SSL_SESSION_set1_master_key(session, key, held.bytes().size()) == 1 &&
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
  *session = nullptr;
  if (self.keys_.empty()) return 0;
  const auto& [name, own] = *self.keys_.begin();
  auto& claim = *static_cast<key_claim*>(SSL_get_app_data(ssl));
  try {
    claim.offered = claim.context.empty() ? name : name + context_mark + claim.context;
  } catch (const std::bad_alloc&) {
    return 0;
  }
  *session = key_session(ssl, own.key);
  if (*session == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(claim.offered.data());
  *identity_size = claim.offered.size();
  return 1;
}

int tls_identity::impl::find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_size,
                                 SSL_SESSION** session) noexcept {
  const auto& self = *static_cast<const impl*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  auto& claim = *static_cast<key_claim*>(SSL_get_app_data(ssl));
  std::string_view wanted(reinterpret_cast<const char*>(identity), identity_size);
  *session = nullptr;
  if (!claim.context.empty()) {
    const std::size_t mark = std::min(wanted.find(context_mark), wanted.size());
    const std::string_view context = wanted.substr(std::min(mark + 1, wanted.size()));
    wanted = wanted.substr(0, mark);
    claim.is_for_another = self.keys_.contains(wanted) && context != claim.context;
  }
  const auto at = claim.is_for_another ? self.keys_.end() : self.keys_.find(wanted);
  // If no key has this name, return success without a key. The handshake then fails, because
  // OpenSSL has no other method.
  if (at == self.keys_.end()) {
    try {
      claim.unknown = valid_text(wanted.substr(0, max_identity));
    } catch (const std::exception&) {
      // Without memory, the error text lacks the name.
    }
    return 1;
  }
  claim.client = &at->second.client;
  *session = key_session(ssl, at->second.key);
  return *session != nullptr ? 1 : 0;
}

// ---- certificates -------------------------------------------------------------------------------

tls_identity::impl::digest tls_identity::impl::digest_of(std::span<const std::byte> bytes) {
  digest made{};
  check(EVP_Digest(bytes.data(), bytes.size(), made.data(), nullptr, EVP_sha256(), nullptr) == 1,
        "compute SHA-256");
  return made;
}

tls_identity::impl::digest tls_identity::impl::digest_of(X509* certificate) {
  unsigned char* text = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &text);
  check(size > 0, "read a public key");
  const std::unique_ptr<unsigned char, decltype([](unsigned char* p) { OPENSSL_free(p); })> owner(
      text);
  return digest_of(std::as_bytes(std::span(text, static_cast<std::size_t>(size))));
}

int tls_identity::impl::check_pinned(X509_STORE_CTX* chain, void* self) noexcept {
  const auto& own = *static_cast<const impl*>(self);
  try {
    X509* const shown = X509_STORE_CTX_get0_cert(chain);
    const bool is_known = shown != nullptr && std::find(own.pinned_.begin(), own.pinned_.end(),
                                                        digest_of(shown)) != own.pinned_.end();
    if (is_known) return own.has_authority_ ? X509_verify_cert(chain) : 1;
  } catch (const std::exception&) {
    // If there is no memory, treat the key as unknown.
  }
  X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_UNTRUSTED);
  return 0;
}

void tls_identity::impl::pin(const std::string& server_keys) {
  check_server_keys(server_keys);
  for (const std::string& text : split(server_keys, ',')) {
    digest key{};
    // The array has one byte more than a key, because EVP_DecodeBlock() writes 33 bytes for 44
    // letters, although the last letter is '=', which encodes no byte.
    std::array<unsigned char, 33> decoded{};
    const std::string letters = text.substr(server_key_prefix.size());
    check(EVP_DecodeBlock(decoded.data(), reinterpret_cast<const unsigned char*>(letters.data()),
                          static_cast<int>(letters.size())) == static_cast<int>(decoded.size()),
          "decode a public key");
    std::copy_n(decoded.begin(), key.size(), key.begin());
    pinned_.push_back(key);
  }
  SSL_CTX_set_cert_verify_callback(context(), &check_pinned, this);
}

void tls_identity::impl::expect_server(SSL* ssl, const std::string& name) const {
  if (has_key() || !pinned_.empty() || name.empty()) return;
  if (name.starts_with('/')) {
    throw setting_error("certificates have no names for Unix sockets; give the public key of the "
                        "server at " +
                        name + " (FARCALL_SERVER_KEY), or use a key (FARCALL_KEY)");
  }
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl);
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                              X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  // Remove the interface's name, with which an IPv6 number may end.
  const std::string number = name.substr(0, name.find('%'));
  check(is_number_of_host(number)
            ? X509_VERIFY_PARAM_set1_ip_asc(wanted, number.c_str()) == 1
            : X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), name.size()) == 1,
        "ask for a server's name");
}

std::string tls_identity::impl::own_public_key() const {
  X509* const own = SSL_CTX_get0_certificate(context());
  if (own == nullptr) return {};
  const digest key = digest_of(own);
  std::array<unsigned char, 64> text{};
  const int size = EVP_EncodeBlock(text.data(), key.data(), static_cast<int>(key.size()));
  return std::string(server_key_prefix) +
         std::string(reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(size));
}

void tls_identity::impl::load_authority(const std::string& file) {
  require_regular_file(file, "authority file");
  if (SSL_CTX_load_verify_locations(context(), file.c_str(), nullptr) != 1) {
    throw setting_error("authority file " + file + " cannot be used: " + openssl_reason() +
                        "; it must hold certificates in PEM format");
  }
  has_authority_ = true;
}

void tls_identity::impl::load_revoked(const std::string& file) {
  require_regular_file(file, "file of revoked certificates");
  const std::unique_ptr<BIO, free_bio> text(BIO_new_file(file.c_str(), "r"));
  X509_STORE* const store = SSL_CTX_get_cert_store(context());
  std::size_t lists = 0;
  while (text) {
    const std::unique_ptr<X509_CRL, free_list> list(
        PEM_read_bio_X509_CRL(text.get(), nullptr, nullptr, nullptr));
    if (!list) break;
    check(X509_STORE_add_crl(store, list.get()) == 1, "use a list of revoked certificates");
    ++lists;
  }
  if (lists == 0 || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    throw setting_error("file " + file +
                        " of revoked certificates cannot be used: " + openssl_reason() +
                        "; it must hold the authority's list (CRL) in PEM format");
  }
  ERR_clear_error();
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
}

void tls_identity::impl::use_certificates(const certificate_files& files) {
  const auto& [certificate_file, key_file, authority_file, revoked_file, server_keys] = files;
  const secret key_text = read_private_file(key_file, max_key_file);
  ERR_clear_error();
  require_regular_file(certificate_file, "certificate file");
  if (SSL_CTX_use_certificate_chain_file(context(), certificate_file.c_str()) != 1) {
    const bool is_weak = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_EE_KEY_TOO_SMALL;
    throw setting_error("certificate file " + certificate_file +
                        " cannot be used: " + openssl_reason() +
                        (is_weak ? "; make one with a longer key, as RSA of 2048 bits"
                                 : "; it must be a file in PEM format"));
  }
  const std::unique_ptr<BIO, free_bio> text(
      BIO_new_mem_buf(key_text.bytes().data(), static_cast<int>(key_text.bytes().size())));
  check(text != nullptr, "read a key");
  // The callback gives no pass phrase, because OpenSSL would otherwise ask for one on the terminal.
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
  if (!authority_file.empty()) load_authority(authority_file);
  if (!revoked_file.empty()) load_revoked(revoked_file);
  if (!server_keys.empty()) pin(server_keys);
  SSL_CTX_set_verify(context(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

tls_identity::tls_identity(std::unique_ptr<impl> inside) noexcept : inside_(std::move(inside)) {}
tls_identity::~tls_identity() = default;

std::shared_ptr<const tls_identity> tls_identity::with_key(std::string identity, secret key) {
  auto inside = std::make_unique<impl>();
  inside->use_key(std::move(identity), {}, std::move(key));
  return std::make_shared<const tls_identity>(std::move(inside));
}

std::shared_ptr<const tls_identity> tls_identity::with_keys(std::vector<named_key> keys) {
  auto inside = std::make_unique<impl>();
  inside->use_keys(std::move(keys));
  return std::make_shared<const tls_identity>(std::move(inside));
}

std::shared_ptr<const tls_identity>
tls_identity::with_certificates(const certificate_files& files) {
  auto inside = std::make_unique<impl>();
  inside->use_certificates(files);
  return std::make_shared<const tls_identity>(std::move(inside));
}

bool tls_identity::has_keys() const noexcept { return inside_->has_key(); }
std::string tls_identity::own_public_key() const { return inside_->own_public_key(); }

} // namespace farcall::tcp
