// SPDX-License-Identifier: Apache-2.0
#include "sharers.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::openmp::sharers_test {
namespace {

std::vector<std::uint32_t> sharers(const std::vector<target_place>& all) {
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < all.size(); ++i)
    found.push_back(sharers_of(all, i));
  return found;
}

using counts = std::vector<std::uint32_t>;

TEST(openmp_sharers, are_all_unbound_targets_of_a_machine) {
  EXPECT_EQ(sharers({{"a", {0xff}}}), counts{1});
  EXPECT_EQ(sharers({{"a", {0xff}}, {"a", {0xff}}, {"a", {0xff}}}), (counts{3, 3, 3}));
}

TEST(openmp_sharers, are_on_the_same_machine) {
  EXPECT_EQ(sharers({{"a", {0xff}}, {"b", {0xff}}, {"a", {0xff}}}), (counts{2, 1, 2}));
}

TEST(openmp_sharers, are_none_beside_other_processors) {
  // mpirun --map-by slot:PE=4
  EXPECT_EQ(sharers({{"a", {0x0f}}, {"a", {0xf0}}, {"a", {0, 0x0f}}}), (counts{1, 1, 1}));
}

TEST(openmp_sharers, are_bound_to_the_same_processors) {
  // mpirun --bind-to socket
  EXPECT_EQ(sharers({{"a", {0x0f}}, {"a", {0x0f}}, {"a", {0xf0}}}), (counts{2, 2, 1}));
  EXPECT_EQ(sharers({{"a", {0xff}}, {"a", {0x01}}}), (counts{1, 1}));
}

} // namespace
} // namespace farcall::openmp::sharers_test
