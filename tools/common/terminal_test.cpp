// SPDX-License-Identifier: Apache-2.0
#include "terminal.hpp"

#include <gtest/gtest.h>

#include <optional>

#include <unistd.h>

namespace farcall::tool {
namespace {

TEST(terminal_width, pipes_have_none) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(terminal_width(ends[1]), std::nullopt);
  ::close(ends[0]);
  ::close(ends[1]);
}

} // namespace
} // namespace farcall::tool
