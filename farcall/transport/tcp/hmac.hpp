// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/secret.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace farcall::tcp {

inline constexpr std::size_t hmac_bytes = 32;
using hmac = std::array<std::byte, hmac_bytes>;

/// Computes an HMAC-SHA-256 (RFC 2104), which only a holder of the key can compute. Uses OpenSSL if
/// OpenSSL is built in. Throws error if OpenSSL fails.
[[nodiscard]] hmac hmac_of(const secret& key, std::span<const std::byte> bytes);

/// Computes the same HMAC without OpenSSL. The time that it takes depends only on the sizes, not on
/// the values of the bytes.
[[nodiscard]] hmac portable_hmac_of(const secret& key, std::span<const std::byte> bytes) noexcept;

} // namespace farcall::tcp
