#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <memory>
#include <string>
#include <vector>

namespace farcall::tcp {

/// False when farcall was built without OpenSSL; then everything below throws error.
[[nodiscard]] bool tls_is_built_in() noexcept;

/// The files of certificates, PEM, and what else is asked of the other side's.
struct certificate_files {
  std::string certificate{}; ///< ours, with those between it and its authority behind it
  std::string key{};         ///< of `certificate`; for its owner only, without a pass phrase
  std::string authority{};   ///< signs the other side's
  std::string revoked{};     ///< that the authority has taken back (CRLs); empty: none
  /// Public keys that a server may have, as "sha256:BASE64" of its SubjectPublicKeyInfo, with
  /// commas between. They stand in place of its name, and of an authority where none is given. For
  /// hosts.
  std::string server_keys{};
};

/// What one side proves itself with, and what it asks of the other: the same key on both sides, or
/// certificates of one authority. Immutable; any number of streams and threads may share one.
class tls_identity {
 public:
  /// A key that both sides have, 32 bytes. `identity` names it and is sent unencrypted: 1 to 128
  /// characters, the same on both sides. Throws setting_error when either does not fit.
  [[nodiscard]] static std::shared_ptr<const tls_identity> with_key(std::string identity,
                                                                    secret key);

  /// Keys of clients, and of a group. The connecting side has one. The accepting side takes those
  /// who have any of them, proves itself with that one, and knows by it who came. Throws
  /// setting_error when two cannot be told apart, or one does not fit.
  [[nodiscard]] static std::shared_ptr<const tls_identity> with_keys(std::vector<named_key> keys);

  /// The accepting side takes whoever has a certificate of the authority that is good for clients
  /// and not revoked. The connecting side takes a server whose certificate is of the authority,
  /// good for servers, and for the server's name or address; or one that has one of `server_keys`.
  /// Throws setting_error that names the file.
  [[nodiscard]] static std::shared_ptr<const tls_identity>
  with_certificates(const certificate_files& files);

  /// It has keys, so that names of peers are those of clients.
  [[nodiscard]] bool has_keys() const noexcept;
  /// Our certificate's public key as hosts may ask for it, "sha256:BASE64"; empty: we have keys.
  [[nodiscard]] std::string own_public_key() const;

  class impl;
  explicit tls_identity(std::unique_ptr<impl> inside) noexcept;
  ~tls_identity();
  [[nodiscard]] const impl& inside() const noexcept { return *inside_; }

 private:
  std::unique_ptr<impl> inside_;
};

/// The connecting end of TLS 1.3 over a socket, which may still be connecting. The handshake runs
/// inside read and write. An end of the connection without close_notify is `failed`. `server` is
/// the name or address that a server's certificate must be for. With a key, `context` says what the
/// connection is for: where the ends differ in it, the handshake fails. It is sent unencrypted, at
/// most 32 characters. Throws error.
[[nodiscard]] std::unique_ptr<stream> tls_client(unique_fd fd,
                                                 std::shared_ptr<const tls_identity> identity,
                                                 const std::string& server = {},
                                                 const std::string& context = {});

/// The accepting end.
[[nodiscard]] std::unique_ptr<stream> tls_server(unique_fd fd,
                                                 std::shared_ptr<const tls_identity> identity,
                                                 const std::string& context = {});

} // namespace farcall::tcp
