#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <memory>
#include <string>

namespace farcall::tcp {

/// False when farcall was built without OpenSSL; then everything below throws error.
[[nodiscard]] bool tls_is_built_in() noexcept;

/// What one side proves itself with, and what it asks of the other: the same key on both sides, or
/// certificates of one authority. Immutable; any number of streams and threads may share one.
class tls_identity {
 public:
  /// A key that both sides have, 32 bytes. `identity` names it and is sent unencrypted: 1 to 128
  /// characters, the same on both sides. Throws setting_error when either does not fit.
  [[nodiscard]] static std::shared_ptr<const tls_identity> with_key(std::string identity,
                                                                    secret key);

  /// Certificates (PEM files): ours, its key, and the authority's. Whoever has a certificate of
  /// that authority is let in, under any name. The key file must be readable by its owner only and
  /// have no pass phrase. Throws setting_error that names the file.
  [[nodiscard]] static std::shared_ptr<const tls_identity>
  with_certificates(const std::string& certificate_file, const std::string& key_file,
                    const std::string& authority_file);

  class impl;
  explicit tls_identity(std::unique_ptr<impl> inside) noexcept;
  ~tls_identity();
  [[nodiscard]] const impl& inside() const noexcept { return *inside_; }

 private:
  std::unique_ptr<impl> inside_;
};

/// The connecting end of TLS 1.3 over a socket, which may still be connecting. The handshake runs
/// inside read and write. An end of the connection without close_notify is `failed`. Throws error.
[[nodiscard]] std::unique_ptr<stream> tls_client(unique_fd fd,
                                                 std::shared_ptr<const tls_identity> identity);

/// The accepting end.
[[nodiscard]] std::unique_ptr<stream> tls_server(unique_fd fd,
                                                 std::shared_ptr<const tls_identity> identity);

} // namespace farcall::tcp
