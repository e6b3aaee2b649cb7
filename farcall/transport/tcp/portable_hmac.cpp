// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/wipe.hpp>
#include <farcall/transport/tcp/hmac.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace farcall::tcp {
namespace {

/// Computes the SHA-256 hash (FIPS 180-4) of bytes that are added in parts.
class sha256 {
 public:
  static constexpr std::size_t block_bytes = 64;

  void add(std::span<const std::byte> bytes) noexcept {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t part = std::min(bytes.size(), block_bytes - filled_);
      std::memcpy(block_.data() + filled_, bytes.data(), part);
      filled_ += part;
      bytes = bytes.subspan(part);
      if (filled_ == block_bytes) take_block();
    }
  }

  [[nodiscard]] hmac end() noexcept {
    const std::uint64_t bits = bytes_ * 8;
    constexpr std::byte mark{0x80};
    add({&mark, 1});
    constexpr std::byte zero{0};
    while (filled_ != block_bytes - sizeof bits)
      add({&zero, 1});
    std::array<std::byte, sizeof bits> length{};
    for (std::size_t i = 0; i < length.size(); ++i)
      length[i] = static_cast<std::byte>(bits >> (8 * (length.size() - 1 - i)));
    add(length);
    hmac digest{};
    for (std::size_t i = 0; i < digest.size(); ++i)
      digest[i] = static_cast<std::byte>(state_[i / 4] >> (8 * (3 - i % 4)));
    return digest;
  }

 private:
  static std::uint32_t mix(std::uint32_t x, int a, int b, int c) noexcept {
    return std::rotr(x, a) ^ std::rotr(x, b) ^ std::rotr(x, c);
  }

  void take_block() noexcept {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t k = 0; k < 4; ++k)
        w[i] = w[i] << 8 | std::to_integer<std::uint32_t>(block_[4 * i + k]);
    }
    for (std::size_t i = 16; i < w.size(); ++i) {
      const std::uint32_t early =
          std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const std::uint32_t late = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + early + w[i - 7] + late;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const std::uint32_t one = h + mix(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + rounds[i] + w[i];
      const std::uint32_t two = mix(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + one;
      d = c;
      c = b;
      b = a;
      a = one + two;
    }
    const std::array<std::uint32_t, 8> more{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state_.size(); ++i)
      state_[i] += more[i];
    filled_ = 0;
  }

  /// The round constants are the fractional parts of the cube roots of the first primes. The
  /// initial values of state_ are the fractional parts of the square roots of the first primes.
  static constexpr std::array<std::uint32_t, 64> rounds{
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
      0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
      0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
      0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
      0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
      0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
      0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
      0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
      0xc67178f2};
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, block_bytes> block_{};
  std::size_t filled_ = 0;
  std::uint64_t bytes_ = 0;
};

} // namespace

hmac portable_hmac_of(const secret& key, std::span<const std::byte> bytes) noexcept {
  std::array<std::byte, sha256::block_bytes> padded{};
  if (key.bytes().size() > padded.size()) {
    sha256 shortened;
    shortened.add(key.bytes());
    std::ranges::copy(shortened.end(), padded.begin());
  } else {
    std::ranges::copy(key.bytes(), padded.begin());
  }
  const auto xor_with = [&padded](std::byte with) {
    for (std::byte& b : padded)
      b ^= with;
  };
  constexpr std::byte inner_pad{0x36};
  constexpr std::byte outer_pad{0x5c};
  xor_with(inner_pad);
  sha256 inner;
  inner.add(padded);
  inner.add(bytes);
  xor_with(inner_pad ^ outer_pad);
  sha256 outer;
  outer.add(padded);
  outer.add(inner.end());
  wipe(std::span(padded));
  return outer.end();
}

} // namespace farcall::tcp
