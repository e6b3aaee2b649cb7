// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/version.hpp>
#include <farcall/transport/wire_release.hpp>

#include <algorithm>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace farcall::test::wire_release_test {
namespace {

TEST(wire_release, names_a_release_with_its_wire_version) {
  EXPECT_EQ(release_name(0x000100, 17), "farcall 0.1.0 (wire version 17)");
  EXPECT_EQ(release_name(0, 16), "farcall of an unknown release (wire version 16)");
}

TEST(wire_release, names_both_releases_if_they_differ) {
  EXPECT_EQ(difference_text(0x000200, 18),
            "farcall " + release_text(this_release) + " (wire version " +
                std::to_string(wire_version) +
                ") here, farcall 0.2.0 (wire version 18) there; build both with the same farcall");
}

TEST(wire_release, is_printable_and_short_for_all_numbers) {
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t number : {0U, 1U, 0x00000A0DU, 0x1B5B324AU, most}) {
    const std::string text = difference_text(number, number);
    EXPECT_LT(text.size(), 160U) << text;
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }))
        << text;
  }
}

} // namespace
} // namespace farcall::test::wire_release_test
