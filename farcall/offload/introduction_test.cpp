// SPDX-License-Identifier: Apache-2.0

// Introductions of targets, when one first uses the other.

#include <farcall/async/call.hpp>
#include <farcall/offload/job.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace farcall::test::introduction_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// Returns true if the calling process maps memory of that node, whose name has the node's number.
bool maps_memory_of(node_id other) {
  const std::string label = "-" + std::to_string(other) + "-receive";
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:farcall-") != std::string::npos && line.find(label) != std::string::npos)
      return true;
  }
  return false;
}

class introductions : public job_test {
 protected:
  introductions() : job_test("shm:4"), other_(job_.targets().at(1)), third_(job_.targets().at(2)) {}

  node other_;
  node third_;
};

TEST_F(introductions, happen_when_one_target_calls_another) {
  EXPECT_TRUE(sync(target_, fn<&maps_memory_of>, host_id));
  EXPECT_FALSE(sync(target_, fn<&maps_memory_of>, other_.id()));
  EXPECT_EQ(sync(target_, fn<&ask_number_of>, other_.id()), other_.id());
  EXPECT_TRUE(sync(target_, fn<&maps_memory_of>, other_.id()));
  EXPECT_TRUE(sync(other_, fn<&maps_memory_of>, target_.id()));
  EXPECT_FALSE(sync(target_, fn<&maps_memory_of>, third_.id()));
  EXPECT_EQ(sync(other_, fn<&ask_number_of>, target_.id()), target_.id());
}

TEST_F(introductions, may_go_both_ways_and_around_at_once) {
  const auto ask_all = [](const std::vector<node_id>& all) {
    std::vector<future<node_id>> numbers;
    for (const node_id id : all)
      numbers.push_back(async(node_at(id), fn<&own_number>));
    node_id sum = 0;
    for (auto& number : numbers)
      sum += number.get();
    return sum;
  };
  std::vector<node_id> all;
  for (const node& n : job_.targets())
    all.push_back(n.id());
  std::vector<future<node_id>> sums;
  for (const node& n : job_.targets())
    sums.push_back(async(n, ask_all, all));
  std::vector<node_id> got;
  for (auto& sum : sums)
    got.push_back(sum.get());
  EXPECT_THAT(got, Each(std::accumulate(all.begin(), all.end(), node_id{0})));
}

TEST_F(introductions, happen_when_memory_is_used) {
  auto first = other_.allocate<int>(100);
  auto second = third_.allocate<int>(100);
  put(std::vector<int>(100, 7), first).get();
  put(std::vector<int>(100, 8), second).get();
  const auto use = [](remote_span<int> put_there, remote_span<int> got) {
    put(std::vector<int>(100, 9), put_there).get();
    std::vector<int> here(100);
    get(got, std::span(here)).get();
    return here.back();
  };
  EXPECT_EQ(sync(target_, use, first.span(), second.span()), 8);
  std::vector<int> here(100);
  get(first, std::span(here)).get();
  EXPECT_THAT(here, Each(9));
  const node fourth = job_.targets().at(3);
  const auto in_place = [](remote_span<int> there) { return map(there)[99]; };
  EXPECT_EQ(sync(fourth, in_place, first.span()), 9);
}

TEST_F(introductions, tell_what_a_node_is) {
  const auto describe = [](node_id id) {
    const node_description d = node_at(id).description();
    return d.name + " " + std::to_string(d.pid) + " by " + d.transport;
  };
  EXPECT_EQ(sync(target_, describe, other_.id()),
            "node 2 " + std::to_string(other_.description().pid) + " by shm");
}

TEST_F(introductions, throw_for_a_node_that_has_failed) {
  kill_target(other_);
  EXPECT_THAT(sync(target_, fn<&failure_of_call_to>, other_.id()),
              AllOf(HasSubstr("node_failed"), HasSubstr("node 2"), HasSubstr("kill")));
  EXPECT_FALSE(sync(third_, [](node_id id) { return node_at(id).alive(); }, other_.id()));
  EXPECT_TRUE(sync(third_, [](node_id id) { return node_at(id).alive(); }, target_.id()));
}

TEST_F(introductions, to_memory_of_a_failed_node_throw) {
  const auto memory = other_.allocate<int>(100);
  kill_target(other_);
  const auto use = [](remote_span<int> there) {
    try {
      put(std::vector<int>(100, 9), there).get();
    } catch (const node_failed& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(sync(target_, use, memory.span()), HasSubstr("node 2"));
}

TEST_F(introductions, end_when_the_node_dies_meanwhile) {
  std::optional<stopped_target> stopped(std::in_place, other_);
  future<std::string> failure = async(target_, fn<&failure_of_call_to>, other_.id());
  // Other calls go on, also on the thread that handles introductions.
  EXPECT_EQ(sync(third_, fn<&ask_number_of>, job_.targets().at(3).id()), 4U);
  ::kill(static_cast<pid_t>(other_.description().pid), SIGKILL);
  EXPECT_THAT(failure.get(), AllOf(HasSubstr("node_failed"), HasSubstr("node 2")));
}

TEST_F(introductions, keep_deadlines) {
  const stopped_target stopped(other_);
  const auto call = [](node_id id) {
    try {
      (void)sync(node_at(id).within(std::chrono::milliseconds(20)), fn<&own_number>);
    } catch (const timeout& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(sync(target_, call, other_.id()), HasSubstr("node 2"));
}

TEST_F(introductions, after_one_that_came_too_late_still_work) {
  const auto call = [](node_id id, std::int64_t milliseconds) {
    try {
      return sync(node_at(id).within(std::chrono::milliseconds(milliseconds)), fn<&own_number>);
    } catch (const timeout&) {
      return no_node;
    }
  };
  {
    const stopped_target stopped(other_);
    EXPECT_EQ(sync(target_, call, other_.id(), 20), no_node);
  }
  EXPECT_EQ(sync(target_, call, other_.id(), 60'000), other_.id());
}

TEST_F(introductions, to_missing_nodes_are_errors) {
  const auto ask = [](node_id id) {
    try {
      (void)node_at(id);
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(sync(target_, ask, 5U), AllOf(HasSubstr("no node 5"), HasSubstr("5 nodes")));
  EXPECT_THAT(sync(target_, ask, 1'000'000U), HasSubstr("no node 1000000"));
}

TEST_F(introductions, report_failures_from_then_on) {
  EXPECT_EQ(sync(target_, fn<&ask_number_of>, other_.id()), other_.id());
  kill_target(other_);
  EXPECT_THAT(sync(target_, fn<&failure_of_call_to>, other_.id()), HasSubstr("node_failed"));
}

} // namespace
} // namespace farcall::test::introduction_test
