// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/version.hpp>

#include <gtest/gtest.h>

namespace farcall::test::version_test {
namespace {

TEST(version, names_a_release_by_three_numbers) {
  EXPECT_EQ(release_text(0x000100), "0.1.0");
  EXPECT_EQ(release_text(0x0C22FF), "12.34.255");
  EXPECT_EQ(release_text(0), "of an unknown release");
}

TEST(version, names_the_folder_of_its_modules_without_the_patch) {
  EXPECT_EQ(versioned_folder() + ".",
            ("farcall-" + release_text(this_release)).substr(0, versioned_folder().size() + 1));
}

} // namespace
} // namespace farcall::test::version_test
