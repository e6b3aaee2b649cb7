#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/hmac.hpp>

#include <cerrno>

#include <linux/if_alg.h>
#include <sys/socket.h>
#include <unistd.h>

/// In builds without OpenSSL: by a socket to the system's own (AF_ALG).
namespace farcall::tcp {
namespace {

constexpr const char* what = "making an HMAC by the system (AF_ALG); a build with OpenSSL (Debian: "
                             "libssl-dev) needs no such";

} // namespace

hmac hmac_of(const secret& key, std::span<const std::byte> bytes) {
  const unique_fd keyed(::socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_alg algorithm{AF_ALG, "hash", 0, 0, "hmac(sha256)"};
  if (!keyed ||
      ::bind(keyed.get(), reinterpret_cast<const sockaddr*>(&algorithm), sizeof algorithm) != 0 ||
      ::setsockopt(keyed.get(), SOL_ALG, ALG_SET_KEY, key.bytes().data(),
                   static_cast<socklen_t>(key.bytes().size())) != 0) {
    throw_system_error(what, errno);
  }
  const unique_fd one(::accept4(keyed.get(), nullptr, nullptr, SOCK_CLOEXEC));
  hmac made{};
  if (!one ||
      ::write(one.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::read(one.get(), made.data(), made.size()) != static_cast<ssize_t>(made.size())) {
    throw_system_error(what, errno);
  }
  return made;
}

} // namespace farcall::tcp
