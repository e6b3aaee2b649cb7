// SPDX-License-Identifier: Apache-2.0
#include <tools/common/version_text.hpp>

#include <farcall/base/version.hpp>
#include <farcall/transport/card.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool::version_text_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

TEST(version_text, names_the_release_the_commit_and_the_wire_format) {
  const std::string text = version_text();
  EXPECT_THAT(text, StartsWith("farcall " + release_text(this_release) + "\n"));
  EXPECT_THAT(text, ContainsRegex("\ncommit: ([0-9a-f]{7,40}( with changes)?|unknown)\n"));
  EXPECT_THAT(text, HasSubstr("\nwire format: " + std::to_string(wire_version) + "\n"));
  EXPECT_THAT(text, HasSubstr("\ntransports: shm, tcp"));
}

} // namespace
} // namespace farcall::tool::version_text_test
