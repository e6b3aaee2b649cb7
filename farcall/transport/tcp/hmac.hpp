#pragma once

#include <farcall/transport/tcp/secret.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace farcall::tcp {

inline constexpr std::size_t hmac_bytes = 32;
using hmac = std::array<std::byte, hmac_bytes>;

/// HMAC-SHA-256 (RFC 2104): what only who has the key can make of these bytes. By OpenSSL where it
/// is built in. Throws error when that fails.
[[nodiscard]] hmac hmac_of(const secret& key, std::span<const std::byte> bytes);

/// The same without OpenSSL. Its time depends on sizes only.
[[nodiscard]] hmac portable_hmac_of(const secret& key, std::span<const std::byte> bytes) noexcept;

} // namespace farcall::tcp
