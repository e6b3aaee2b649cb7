#pragma once

#include <farcall/transport/tcp/secret.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace farcall::tcp {

inline constexpr std::size_t hmac_bytes = 32;
using hmac = std::array<std::byte, hmac_bytes>;

/// HMAC-SHA-256 (RFC 2104): what only who has the key can make of these bytes. By OpenSSL, or by
/// the system where this build has none. Throws error when neither can.
[[nodiscard]] hmac hmac_of(const secret& key, std::span<const std::byte> bytes);

} // namespace farcall::tcp
