// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

/// Support for tests of certificates.
namespace farcall::tcp::test_support {

/// Makes authorities and certificates in its own folder; the destructor removes it.
class certificate_maker {
 public:
  certificate_maker() {
    std::string name = (std::filesystem::temp_directory_path() / "farcall-tls-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  certificate_maker(const certificate_maker&) = delete;
  certificate_maker& operator=(const certificate_maker&) = delete;
  ~certificate_maker() {
    for (auto& [name, made] : made_) {
      X509_free(made.certificate);
      EVP_PKEY_free(made.key);
    }
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }

  /// Writes <name>.pem and <name>.key, signed by `issuer`; an authority if `issuer` is `name`. The
  /// certificate is valid from `since` to `until`, relative to now, for a host name that no machine
  /// of a test has.
  void certify(const std::string& name, const std::string& issuer,
               std::chrono::seconds since = std::chrono::hours(-1),
               std::chrono::seconds until = std::chrono::hours(1)) {
    certify(name, issuer, "DNS:elsewhere.example", "", since, until);
  }

  /// Makes a certificate for other names ("DNS:a.example,IP:192.0.2.1"; none if empty), and for one
  /// purpose ("serverAuth"; any if empty).
  void certify(const std::string& name, const std::string& issuer, const std::string& names,
               const std::string& purpose = "", std::chrono::seconds since = std::chrono::hours(-1),
               std::chrono::seconds until = std::chrono::hours(1)) {
    signed_key& own = made_[name];
    own.key = EVP_EC_gen("P-256");
    own.certificate = X509_new();
    const signed_key by = made_.at(issuer);
    X509* const c = own.certificate;
    X509_set_version(c, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(c), static_cast<long>(made_.size()));
    X509_gmtime_adj(X509_getm_notBefore(c), static_cast<long>(since.count()));
    X509_gmtime_adj(X509_getm_notAfter(c), static_cast<long>(until.count()));
    X509_set_pubkey(c, own.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(c, X509_get_subject_name(by.certificate));
    if (name == issuer) extend(c, NID_basic_constraints, "critical,CA:TRUE");
    if (name != issuer && !names.empty()) extend(c, NID_subject_alt_name, names.c_str());
    if (!purpose.empty()) extend(c, NID_ext_key_usage, purpose.c_str());
    ASSERT_GT(X509_sign(c, by.key, EVP_sha256()), 0);
    std::FILE* out = std::fopen(file(name + ".pem").c_str(), "we");
    PEM_write_X509(out, c);
    std::fclose(out);
    write_key(name, nullptr);
  }

  /// Writes <issuer>.crl: the list of its revoked certificates, valid for `lasts` from now.
  void revoke(const std::vector<std::string>& names, const std::string& issuer,
              std::chrono::seconds lasts = std::chrono::hours(1)) const {
    const signed_key by = made_.at(issuer);
    X509_CRL* const list = X509_CRL_new();
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(by.certificate));
    ASN1_TIME* const at = X509_gmtime_adj(nullptr, -7200);
    X509_CRL_set1_lastUpdate(list, at);
    for (const std::string& name : names) {
      X509_REVOKED* const one = X509_REVOKED_new();
      X509_REVOKED_set_serialNumber(one, X509_get_serialNumber(made_.at(name).certificate));
      X509_REVOKED_set_revocationDate(one, at);
      X509_CRL_add0_revoked(list, one);
    }
    X509_gmtime_adj(at, static_cast<long>(lasts.count()));
    X509_CRL_set1_nextUpdate(list, at);
    ASN1_TIME_free(at);
    ASSERT_GT(X509_CRL_sign(list, by.key, EVP_sha256()), 0);
    std::FILE* out = std::fopen(file(issuer + ".crl").c_str(), "we");
    PEM_write_X509_CRL(out, list);
    std::fclose(out);
    X509_CRL_free(list);
  }

  void write_key(const std::string& name, const char* pass_phrase) const {
    const signed_key own = made_.at(name);
    std::FILE* out = std::fopen(file(name + ".key").c_str(), "we");
    PEM_write_PrivateKey(out, own.key, pass_phrase != nullptr ? EVP_aes_128_cbc() : nullptr,
                         reinterpret_cast<const unsigned char*>(pass_phrase),
                         pass_phrase != nullptr ? static_cast<int>(std::strlen(pass_phrase)) : 0,
                         nullptr, nullptr);
    std::fclose(out);
    ASSERT_EQ(::chmod(file(name + ".key").c_str(), 0600), 0);
  }

 private:
  struct signed_key {
    EVP_PKEY* key = nullptr;
    X509* certificate = nullptr;
  };

  static void extend(X509* c, int what, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value);
    X509_add_ext(c, extension, -1);
    X509_EXTENSION_free(extension);
  }

  std::filesystem::path folder_;
  std::map<std::string, signed_key> made_;
};

} // namespace farcall::tcp::test_support
