// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/hmac.hpp>
#include <farcall/transport/tcp/tls.hpp>

/// Replaces tls.cpp in builds without OpenSSL.
namespace farcall::tcp {
namespace {

[[noreturn]] void refuse() {
  throw error("this build of farcall has no OpenSSL, so it cannot encrypt; install OpenSSL's "
              "development files (Debian: libssl-dev) and build farcall again");
}

} // namespace

hmac hmac_of(const secret& key, std::span<const std::byte> bytes) {
  return portable_hmac_of(key, bytes);
}

class tls_identity::impl {};

bool tls_is_built_in() noexcept { return false; }

tls_identity::tls_identity(std::unique_ptr<impl> inside) noexcept : inside_(std::move(inside)) {}
tls_identity::~tls_identity() = default;

std::shared_ptr<const tls_identity> tls_identity::with_key(std::string, secret) { refuse(); }

std::shared_ptr<const tls_identity> tls_identity::with_keys(std::vector<named_key>) { refuse(); }
std::shared_ptr<const tls_identity> tls_identity::with_certificates(const certificate_files&) {
  refuse();
}
bool tls_identity::has_keys() const noexcept { return false; }
std::string tls_identity::own_public_key() const { return {}; }

std::unique_ptr<stream> tls_client(unique_fd, std::shared_ptr<const tls_identity>,
                                   const std::string&, const std::string&) {
  refuse();
}
std::unique_ptr<stream> tls_server(unique_fd, std::shared_ptr<const tls_identity>,
                                   const std::string&) {
  refuse();
}

} // namespace farcall::tcp
