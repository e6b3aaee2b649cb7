// SPDX-License-Identifier: Apache-2.0

// Tests of MPI addresses in cards. They need no MPI.

#include <farcall/base/error.hpp>
#include <farcall/transport/mpi/address.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall::mpi {
namespace {

TEST(mpi_address, comes_back_as_it_was) {
  const address back = decode_address(encode({0x123456789abcdef0, 7, 100'000, max_tags - 1}));
  EXPECT_EQ(back.world, 0x123456789abcdef0U);
  EXPECT_EQ(back.key, 7U);
  EXPECT_EQ(back.rank, 100'000U);
  EXPECT_EQ(back.tag, max_tags - 1);
}

TEST(mpi_address, is_refused_with_another_length) {
  std::vector<std::byte> bytes = encode({1, 2, 3, 4});
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW((void)decode_address(std::span(bytes).first(n)), malformed_message) << n;
  bytes.push_back(std::byte{0});
  EXPECT_THROW((void)decode_address(bytes), malformed_message);
}

TEST(mpi_address, is_refused_with_an_impossible_rank_or_tag) {
  EXPECT_THROW((void)decode_address(encode({1, 2, 0x80000000, 4})), malformed_message);
  EXPECT_THROW((void)decode_address(encode({1, 2, 3, 0})), malformed_message);
  EXPECT_THROW((void)decode_address(encode({1, 2, 3, max_tags})), malformed_message);
}

} // namespace
} // namespace farcall::mpi
