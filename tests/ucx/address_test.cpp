// SPDX-License-Identifier: Apache-2.0

// Addresses of UCX workers in cards. These tests need no UCX library.

#include <farcall/base/error.hpp>
#include <farcall/transport/ucx/address.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace farcall::ucx {
namespace {

std::vector<std::byte> some_bytes(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST(ucx_address, comes_back_as_it_was) {
  const std::vector<std::byte> worker = some_bytes(79);
  const std::vector<std::byte> bytes = encode({0x123456789abcdef0, 5, true, worker});
  const address back = decode_address(bytes);
  EXPECT_EQ(back.key, 0x123456789abcdef0U);
  EXPECT_EQ(back.place, 5U);
  EXPECT_TRUE(back.has_network);
  EXPECT_TRUE(std::ranges::equal(back.worker, worker));
}

TEST(ucx_address, is_refused_with_another_length) {
  const std::vector<std::byte> worker = some_bytes(79);
  std::vector<std::byte> bytes = encode({1, 2, false, worker});
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW((void)decode_address(std::span(bytes).first(n)), malformed_message) << n;
  bytes.push_back(std::byte{0});
  EXPECT_THROW((void)decode_address(bytes), malformed_message);
  EXPECT_THROW((void)decode_address(encode({1, 2, false, {}})), malformed_message);
  EXPECT_THROW((void)decode_address(encode({1, 2, false, some_bytes(100'000)})), malformed_message);
}

TEST(ucx_address, is_refused_with_any_bit_changed) {
  const std::vector<std::byte> worker = some_bytes(40);
  std::vector<std::byte> bytes = encode({1, 2, false, worker});
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THROW((void)decode_address(bytes), malformed_message) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

} // namespace
} // namespace farcall::ucx
