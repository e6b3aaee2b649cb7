// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <memory>
#include <string>
#include <vector>

namespace farcall::tcp {

/// True if farcall was built with OpenSSL. If false, all functions below throw error.
[[nodiscard]] bool tls_is_built_in() noexcept;

/// PEM files with certificates, and requirements for the peer's certificate.
struct certificate_files {
  std::string certificate{}; ///< own certificate, followed by its intermediate certificates
  std::string key{};         ///< private key of `certificate`, without a pass phrase; only its
                             ///< owner can read it
  std::string authority{};   ///< certificate of the authority that signs the peer's certificate
  std::string revoked{};     ///< list of certificates that the authority has revoked (CRLs); empty
                             ///< if there is none
  /// For hosts: public keys that a server may have, each as "sha256:BASE64" of its
  /// SubjectPublicKeyInfo, separated by commas. If keys are given, the server's name is not
  /// checked. If no authority is given either, the server's certificate needs no signature of an
  /// authority.
  std::string server_keys{};
};

/// Credentials of one end of a connection, and the requirements of this end for its peer. The two
/// ends have the same key, or certificates of the same authority. The object does not change; any
/// number of streams and threads may share it.
class tls_identity {
 public:
  /// Makes an identity with a key of 32 bytes, which both ends have. `identity` names the key, is
  /// the same at both ends, has 1 to 128 characters, and is sent without encryption. Throws
  /// setting_error if one of them is invalid.
  [[nodiscard]] static std::shared_ptr<const tls_identity> with_key(std::string identity,
                                                                    secret key);

  /// Makes an identity with several keys, each of which belongs to a named client or to a group. A
  /// connecting end has one key. An accepting end may have many, and accepts a client that uses one
  /// of them. The client's key tells the accepting end which client it is, and is also the key by
  /// which the accepting end proves its own identity. Throws setting_error if a key is invalid, or
  /// two keys cannot be distinguished.
  [[nodiscard]] static std::shared_ptr<const tls_identity> with_keys(std::vector<named_key> keys);

  /// Makes an identity with certificates. The accepting end requires a certificate of the authority
  /// that is valid for clients and is not revoked. The connecting end requires a certificate of the
  /// authority that is valid for servers, and for the server's name or address. If `server_keys`
  /// are given, it requires one of these instead of the name (see certificate_files). Throws
  /// setting_error with the file's name.
  [[nodiscard]] static std::shared_ptr<const tls_identity>
  with_certificates(const certificate_files& files);

  /// True if the identity has keys rather than certificates, so that the name of a peer is the name
  /// of a client.
  [[nodiscard]] bool has_keys() const noexcept;
  /// Returns the public key of the own certificate as "sha256:BASE64", which is the form in which
  /// hosts may require it. Empty if the identity has keys.
  [[nodiscard]] std::string own_public_key() const;

  class impl;
  explicit tls_identity(std::unique_ptr<impl> inside) noexcept;
  ~tls_identity();
  [[nodiscard]] const impl& inside() const noexcept { return *inside_; }

 private:
  std::unique_ptr<impl> inside_;
};

/// Makes the connecting end of a TLS 1.3 connection over a socket, which may still be connecting.
/// The handshake runs inside read and write. If the connection ends without close_notify, reads
/// return `failed`. `server` is the name or address that the server's certificate must have. If the
/// identity has a key, `context` is the purpose of the connection, of at most 32 characters and
/// sent without encryption; the handshake fails if the two ends name different purposes. Throws
/// error.
[[nodiscard]] std::unique_ptr<stream> tls_client(unique_fd fd,
                                                 std::shared_ptr<const tls_identity> identity,
                                                 const std::string& server = {},
                                                 const std::string& context = {});

/// Makes the accepting end.
[[nodiscard]] std::unique_ptr<stream> tls_server(unique_fd fd,
                                                 std::shared_ptr<const tls_identity> identity,
                                                 const std::string& context = {});

} // namespace farcall::tcp
