// SPDX-License-Identifier: Apache-2.0

// Tests of the C interface with nodes that get the places of nodes that have ended.
#include <farcall/farcall.h>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace farcall::test::c_places_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void end_at_once(fc_reply* /*reply*/, const void* /*bytes*/, size_t /*size*/, void* /*user*/) {}

fc_function callee() { return fc_named("end in a place"); }

/// Registered before main(), and thereby in all processes.
const bool registered = fc_register("end in a place", &end_at_once, nullptr) == FC_OK;

fc_status call(fc_node where) { return fc_call(where, callee(), nullptr, 0, nullptr, 0, nullptr); }

/// A job with two targets and no place for a third.
class c_places : few_places, public two_targets_test {
 protected:
  c_places() : few_places(3) {}

  /// Returns the numbers of the nodes that are alive, as the comment of fc_latest_node() says.
  static std::vector<node_id> live() {
    std::vector<node_id> numbers;
    for (std::uint32_t place = 0; place < fc_job_size(nullptr); ++place) {
      fc_node latest{};
      EXPECT_EQ(fc_latest_node(nullptr, place, &latest), FC_OK);
      if (fc_node_alive(latest)) numbers.push_back(latest.id);
    }
    return numbers;
  }
};

TEST_F(c_places, are_given_again) {
  ASSERT_TRUE(registered);
  EXPECT_THAT(live(), ElementsAre(0, 1, 2));
  fc_node now{};
  ASSERT_EQ(fc_node_at(nullptr, 2, &now), FC_OK);
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_EQ(call(now), FC_OK);
    fc_span memory{};
    ASSERT_EQ(fc_allocate(now, 64, &memory), FC_OK);
    EXPECT_EQ(memory.node, now.id);
    ASSERT_EQ(fc_node_remove(now), FC_OK);
    EXPECT_THAT(live(), ElementsAre(0, 1));
    fc_node again{};
    ASSERT_EQ(fc_node_restart(now, &again), FC_OK) << fc_error_text();
    EXPECT_EQ(again.id, successor_of(now.id));
    EXPECT_EQ(call(again), FC_OK);
    EXPECT_EQ(call(now), FC_NODE_FAILED);
    EXPECT_EQ(fc_error_node(), now.id);
    std::array<std::byte, 64> bytes{};
    EXPECT_EQ(fc_put(nullptr, memory, bytes.data(), bytes.size()), FC_NODE_FAILED);
    EXPECT_FALSE(fc_node_alive(now));
    EXPECT_EQ(fc_job_size(nullptr), 3U);
    EXPECT_THAT(live(), ElementsAre(0, 1, again.id));
    fc_node same{};
    EXPECT_EQ(fc_node_at(nullptr, again.id, &same), FC_OK);
    EXPECT_EQ(fc_node_at(nullptr, successor_of(again.id), &same), FC_INVALID_ARGUMENT);
    now = again;
  }
}

TEST_F(c_places, that_are_missing_are_errors) {
  fc_node none{};
  EXPECT_EQ(fc_latest_node(nullptr, 3, &none), FC_INVALID_ARGUMENT);
  EXPECT_THAT(fc_error_text(), HasSubstr("no place 3"));
  EXPECT_EQ(fc_latest_node(nullptr, 0, nullptr), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_node_add(nullptr, "shm", &none), FC_START_FAILED);
  EXPECT_THAT(fc_error_text(), HasSubstr("no place for another node"));
}

} // namespace
} // namespace farcall::test::c_places_test
