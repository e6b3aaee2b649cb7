// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/peer_keys.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace farcall::test::peer_keys_test {
namespace {

TEST(peer_keys, have_the_key_of_each_row) {
  std::vector<am::handler_key> all(1000);
  std::iota(all.begin(), all.end(), am::first_user_key);
  const std::unique_ptr<const peer_keys> keys(peer_keys::make(all, nullptr));
  for (std::uint32_t row = 0; row < all.size(); ++row)
    ASSERT_EQ((*keys)[row], all[row]);
}

TEST(peer_keys, know_whether_the_builds_are_identical) {
  const std::array<am::handler_key, 1> one{am::first_user_key};
  const program_image& own = program_image::instance();
  for (const program_image* const image : {&own, static_cast<const program_image*>(nullptr)}) {
    const std::unique_ptr<const peer_keys> keys(peer_keys::make(one, image));
    EXPECT_EQ(keys->common_image(), image);
  }
}

TEST(peer_keys, may_be_none) {
  const std::unique_ptr<const peer_keys> keys(peer_keys::make({}, nullptr));
  EXPECT_EQ(keys->common_image(), nullptr);
}

} // namespace
} // namespace farcall::test::peer_keys_test
