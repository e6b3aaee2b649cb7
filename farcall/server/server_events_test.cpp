// SPDX-License-Identifier: Apache-2.0
#include <farcall/server/server_events.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::test::server_events_test {
namespace {

constexpr std::size_t many = 1000;

/// A client may repeat its requests without a limit.
TEST(server_events_test, limits_the_lines_of_targets_that_were_not_started) {
  std::vector<server_event> told;
  server_events events([&](const server_event& e) { told.push_back(e); });
  for (std::size_t n = 0; n < many; ++n)
    events.target_not_started({{}, "192.0.2.1:4000", "alice"}, 1, "too many");
  ASSERT_FALSE(told.empty());
  EXPECT_LT(told.size(), many / 2);
  EXPECT_EQ(told.front().name, "target_not_started");
  EXPECT_EQ(told.front().text, "no target for host alice at 192.0.2.1:4000: too many");
  EXPECT_FALSE(told.front().facts.empty());
  EXPECT_EQ(events.targets_not_started(), many);
}

} // namespace
} // namespace farcall::test::server_events_test
