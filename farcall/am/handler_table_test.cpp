// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/handler_table.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace farcall::test::handler_table_test {
namespace {

using namespace am;

void do_nothing(request_context& /*request*/) noexcept {}

const std::vector<handler_function> of_user = {&do_nothing, nullptr};

TEST(handler_tables, have_the_users_handlers_behind_their_own) {
  const handler_table table(of_user, false);
  EXPECT_EQ(table.size(), first_user_key + of_user.size());
  EXPECT_EQ(table.find(first_user_key), &do_nothing);
  for (const handler_key own : {release_reply_key, fence_key, stop_call_key, name_lane_key})
    EXPECT_NE(table.find(own), nullptr) << own;
}

TEST(handler_tables, have_no_handler_for_other_keys) {
  const handler_table table(of_user, false);
  EXPECT_EQ(table.find(first_user_key + 1), nullptr) << "registered without code";
  EXPECT_EQ(table.find(first_user_key + 2), nullptr);
  EXPECT_EQ(table.find(UINT32_MAX), nullptr);
}

TEST(handler_tables, record_runs_of_user_handlers_alone) {
  const handler_table table(of_user, true);
  EXPECT_EQ(table.find(first_user_key), &responder::run_traced);
  EXPECT_EQ(table.traced(first_user_key), &do_nothing);
  EXPECT_NE(table.find(fence_key), &responder::run_traced);
  EXPECT_EQ(table.find(first_user_key + 1), nullptr);
}

} // namespace
} // namespace farcall::test::handler_table_test
