// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/socket_io.hpp>
#include <farcall/transport/tcp/tls_failure.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace farcall::tcp {
namespace {

std::string openssl_text(int reason) {
  const char* text =
      ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, static_cast<unsigned>(reason)));
  return text != nullptr ? text : "no reason given";
}

constexpr const char* plain_hint = "is one of the two started with --plain?";

std::string refusal_text(const tls_failure& why) {
  if (why.is_for_another) {
    return "it is not for " + why.context +
           ": a party on the network path may have redirected the connection";
  }
  if (!why.context.empty()) {
    return "the other side is not " + why.context +
           " of this job: a party on the network path may have redirected the connection";
  }
  if (!why.client.empty()) {
    return "the other side does not take the key of client " + why.client +
           ": it has no such client (any more), or another key of it; ask its operator";
  }
  if (why.has_clients) {
    return "it has no key of our clients" +
           (why.unknown.empty() ? "" : ", but says it has \"" + why.unknown + '"');
  }
  return why.has_key ? "the other side has another key: give both the same key file"
                     : "the other side does not trust us, or uses a key instead of certificates";
}

std::string handshake_text(const tls_failure& why) {
  switch (why.openssl_reason) {
  case SSL_R_BINDER_DOES_NOT_VERIFY:
  case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
  case SSL_R_NO_SHARED_CIPHER:
  case SSL_R_BAD_PSK:
  case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
  case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
  case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
  case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
  case SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY:
    return refusal_text(why);
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_UNKNOWN_PROTOCOL:
  case SSL_R_HTTP_REQUEST:
  case SSL_R_HTTPS_PROXY_REQUEST:
  case SSL_R_PACKET_LENGTH_TOO_LONG:
  case SSL_R_BAD_RECORD_TYPE:
  case SSL_R_RECORD_LENGTH_MISMATCH:
  case SSL_R_BAD_PACKET_LENGTH:
  case SSL_R_UNEXPECTED_MESSAGE:
  case SSL_R_UNEXPECTED_RECORD:
    return std::string("the other side does not speak TLS: ") + plain_hint;
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    return "the other side does not speak TLS 1.3: is it farcall?";
  default:
    return "";
  }
}

std::string server_text(const tls_failure& why) {
  switch (why.verify_result) {
  case X509_V_ERR_HOSTNAME_MISMATCH:
  case X509_V_ERR_IP_ADDRESS_MISMATCH:
    return "the certificate of the other side is not for " + why.server +
           "; name the server as its certificate does (subjectAltName), or say which public key it "
           "has (FARCALL_SERVER_KEY)";
  case X509_V_ERR_INVALID_PURPOSE:
    return "the certificate of the other side is for another purpose (extendedKeyUsage): servers "
           "need serverAuth, and hosts clientAuth";
  case X509_V_ERR_CERT_UNTRUSTED:
    return "the other side has another public key than FARCALL_SERVER_KEY says";
  default:
    return "";
  }
}

constexpr const char* same_authority = "; both need certificates of the same authority";

bool is_of_unknown_authority(long verify_result) noexcept {
  switch (verify_result) {
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
  case X509_V_ERR_CERT_SIGNATURE_FAILURE:
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    return true;
  default:
    return false;
  }
}

std::string certificate_text(const tls_failure& why) {
  switch (why.openssl_reason) {
  case SSL_R_CERTIFICATE_VERIFY_FAILED:
    if (why.has_key) return "the other side shows a certificate; give it the same key file as us";
    if (std::string text = server_text(why); !text.empty()) return text;
    return std::string("the certificate of the other side is not accepted: ") +
           X509_verify_cert_error_string(why.verify_result) +
           (is_of_unknown_authority(why.verify_result) ? same_authority : "");
  case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    return "the other side shows no certificate; give it one of the same authority";
  case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
  case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
  case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
  case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    if (why.has_key) return "the other side wants a certificate; give it the same key file as us";
    return "the other side does not accept our certificate (" + openssl_text(why.openssl_reason) +
           ")" +
           (why.openssl_reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ? same_authority : "; it knows why");
  default:
    return "";
  }
}

} // namespace

bool is_broken_off(const tls_failure& why) noexcept {
  return why.is_truncated || is_break(why.socket_reason);
}

std::string words(const tls_failure& why) {
  if (!why.happened) return "nothing has failed";
  const std::string begin = why.in_handshake ? "the TLS handshake failed: " : "";
  if (why.no_key_used) return begin + refusal_text(why);
  if (std::string text = certificate_text(why); !text.empty()) return begin + text;
  if (std::string text = handshake_text(why); why.in_handshake && !text.empty()) {
    return begin + text;
  }
  if (why.in_handshake && is_broken_off(why)) {
    return begin + "the other side ended the connection; " + plain_hint +
           " Otherwise its log says why it refused";
  }
  if (why.socket_reason != 0) return begin + socket_failure_text(why.socket_reason);
  if (why.is_truncated) {
    return "truncated: the connection ended without the other side's closing it (its process "
           "ended, or somebody interferes)";
  }
  return begin + "TLS: " + openssl_text(why.openssl_reason);
}

} // namespace farcall::tcp
