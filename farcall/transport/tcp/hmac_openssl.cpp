// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/hmac.hpp>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace farcall::tcp {

hmac hmac_of(const secret& key, std::span<const std::byte> bytes) {
  // Disable OpenSSL's cleanup at exit: other threads may still compute HMACs during the exit, and
  // forked processes run the same exit handlers. The first use of OpenSSL in the process decides
  // about the cleanup.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  hmac made{};
  unsigned size = 0;
  const auto* const done =
      ::HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()),
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(made.data()), &size);
  if (done == nullptr || size != made.size()) throw error("OpenSSL cannot make an HMAC");
  return made;
}

} // namespace farcall::tcp
