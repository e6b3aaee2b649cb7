// SPDX-License-Identifier: Apache-2.0

// Nodes that get the places of nodes that have ended.

#include <farcall/async/call.hpp>
#include <farcall/async/node.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/copy/mapped.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/node_change.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace farcall::test::places_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Number of calls that this process has executed for a test.
std::atomic<unsigned> executed{0};
void execute() { ++executed; }
unsigned count_executed() { return executed; }

/// A job with two targets and no place for a third.
class places : few_places, public two_targets_test {
 protected:
  places() : few_places(3) {}
};

/// Things of a node that a program keeps after the node has ended.
struct kept {
  explicit kept(const node& n)
      : where(n), stream(n), memory(n.allocate<int>(1000)), pending(async(n, [] { ::pause(); })) {}

  node where;
  lane stream;
  buffer<int> memory;
  future<void> pending;

  /// Expects that everything fails, and that nothing reaches another node.
  void expect_lost() {
    EXPECT_FALSE(where.alive());
    if (pending.valid()) {
      EXPECT_THROW(pending.get(), node_failed);
    }
    EXPECT_THROW((void)sync(where, fn<&own_number>), node_failed);
    EXPECT_THROW((void)sync(stream, fn<&own_number>), node_failed);
    EXPECT_THROW(post(where, fn<&execute>), node_failed);
    EXPECT_THROW(post(stream, fn<&execute>), node_failed);
    EXPECT_THROW((void)lane(where), node_failed);
    EXPECT_THROW((void)where.allocate<int>(10), node_failed);
    std::vector<int> here(1000, 9);
    EXPECT_THROW(put(here, memory).get(), node_failed);
    EXPECT_THROW(get(memory, here).get(), node_failed);
  }
};

TEST_F(places, are_given_again_for_ever) {
  constexpr unsigned rounds = 12;
  std::vector<kept> former;
  node now = target_;
  for (unsigned i = 0; i < rounds; ++i) {
    former.emplace_back(now);
    kill_target(now);
    const node again = job_.restart(now);
    ASSERT_EQ(again.id(), successor_of(now.id()));
    ASSERT_EQ(sync(again, fn<&own_number>), again.id());
    ASSERT_EQ(again.name(), "node " + std::to_string(again.id()));
    ASSERT_NE(again, now);
    // Memory of the new node, which has the same address as memory of the former node.
    auto memory = again.allocate<int>(1000);
    put(std::vector<int>(1000, 5), memory).get();
    for (kept& k : former)
      k.expect_lost();
    if (HasFailure()) return;
    std::vector<int> here(1000);
    get(memory, here).get();
    EXPECT_THAT(here, Each(5)) << "a copy to a former node";
    EXPECT_EQ(sync(again, fn<&count_executed>), 0U) << "a call to a former node";
    EXPECT_EQ(job_.size(), 3U);
    EXPECT_THAT(numbers_of(job_.live_targets()), ElementsAre(again.id(), other_.id()));
    EXPECT_EQ(job_.node_at(again.id()), again);
    now = again;
  }
  EXPECT_THAT(numbers_of(job_.targets()), ElementsAre(1, 2)) << "the targets of the start";
}

TEST_F(places, are_known_to_the_other_targets) {
  node now = target_;
  for (unsigned i = 0; i < 6; ++i) {
    auto memory = now.allocate<int>(1000);
    put(std::vector<int>(1000, static_cast<int>(i)), memory).get();
    const auto first_of = [](remote_span<int> there) {
      std::vector<int> here(there.size());
      get(there, std::span(here)).get();
      return here.front();
    };
    // The other target calls the node, copies from it, and is called by it.
    ASSERT_EQ(sync(other_, fn<&ask_number_of>, now.id()), now.id());
    ASSERT_EQ(sync(other_, first_of, memory.span()), static_cast<int>(i));
    ASSERT_EQ(sync(now, fn<&ask_number_of>, other_.id()), other_.id());
    const remote_span<int> span = memory.span();
    kill_target(now);
    const node again = job_.restart(now);
    ASSERT_EQ(sync(other_, fn<&ask_number_of>, again.id()), again.id());
    ASSERT_EQ(sync(again, fn<&ask_number_of>, other_.id()), other_.id());
    EXPECT_THAT(sync(other_, fn<&failure_of_call_to>, now.id()), HasSubstr("node_failed: node"));
    EXPECT_THROW((void)sync(other_, first_of, span), remote_error);
    // The new node never knew the former one.
    EXPECT_THAT(sync(again, fn<&failure_of_call_to>, now.id()), HasSubstr("node_failed: node"));
    EXPECT_THAT(sync(again, fn<&failure_of_call_to>, successor_of(again.id())),
                HasSubstr("error: there is no node"));
    now = again;
  }
}

TEST_F(places, send_handles_of_former_nodes_as_such) {
  kill_target(target_);
  const node again = job_.restart(target_);
  const auto is_alive = [](const node& n) { return n.alive(); };
  EXPECT_FALSE(sync(other_, is_alive, target_));
  EXPECT_TRUE(sync(other_, is_alive, again));
  EXPECT_FALSE(sync(again, is_alive, target_));
}

TEST_F(places, are_all_taken_by_nodes_that_live) {
  EXPECT_THAT(text_thrown_by<start_failed>([&] { (void)job_.add("shm"); }),
              AllOf(HasSubstr("no place for another node"), HasSubstr("3 of its 3")));
  job_.remove(other_);
  const std::vector<std::string> two{"shm", "shm"};
  EXPECT_THAT(text_thrown_by<start_failed>([&] { (void)job_.add(two); }),
              HasSubstr("no place for 2 more nodes"));
  const node added = job_.add("shm");
  EXPECT_EQ(added.id(), successor_of(other_.id()));
  EXPECT_EQ(sync(added, fn<&own_number>), added.id());
  EXPECT_THROW((void)job_.add("shm"), start_failed);
}

TEST_F(places, are_named_in_the_events_of_changes) {
  struct event {
    node_id node;
    node_change what;
    node_id replaces;
    bool operator==(const event&) const = default;
  };
  std::mutex mutex;
  std::vector<event> received;
  job_.on_node_change([&](const node_event& e) {
    // A restart in this function needs the place of the node whose end it is told of.
    if (e.what == node_change::failed && received.size() < 6) (void)job_.restart(e.where);
    if (e.what == node_change::joined)
      ::kill(static_cast<pid_t>(e.where.description().pid), SIGKILL);
    const std::lock_guard guard(mutex);
    received.push_back({e.where.id(), e.what, e.replaces});
  });
  ::kill(static_cast<pid_t>(target_.description().pid), SIGKILL);
  ASSERT_TRUE(eventually([&] {
    promise<void> nobody_keeps;
    (void)nobody_keeps.get_future().wait_for(std::chrono::milliseconds(1));
    const std::lock_guard guard(mutex);
    return received.size() >= 7;
  }));
  const node_id first = successor_of(1);
  const node_id second = successor_of(first);
  const node_id third = successor_of(second);
  const std::lock_guard guard(mutex);
  EXPECT_THAT(received, ElementsAre(event{1, node_change::failed, no_node},
                                    event{first, node_change::joined, 1},
                                    event{first, node_change::failed, no_node},
                                    event{second, node_change::joined, first},
                                    event{second, node_change::failed, no_node},
                                    event{third, node_change::joined, second},
                                    event{third, node_change::failed, no_node}));
}

TEST_F(places, are_given_again_while_threads_call) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> calls{0};
  std::mutex mutex;
  node now = target_;
  const auto newest = [&] {
    const std::lock_guard guard(mutex);
    return now;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const node called = newest();
        try {
          ASSERT_EQ(sync(called, fn<&own_number>), called.id());
          ASSERT_EQ(sync(other_, fn<&ask_number_of>, called.id()), called.id());
        } catch (const node_failed&) {
        } catch (const remote_error& e) {
          ASSERT_EQ(e.type_name(), "farcall::node_failed");
        }
        ++calls;
      }
    });
  }
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned before = calls;
    EXPECT_TRUE(eventually([&] { return calls >= before + 30; }));
    const node last = newest();
    kill_target(last);
    const node again = job_.restart(last);
    const std::lock_guard guard(mutex);
    now = again;
  }
  stop = true;
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(newest().id(), 1 + 8 * max_node_places);
}

TEST_F(places, leave_memory_that_is_mapped) {
  auto memory = target_.allocate<int>(1000);
  put(std::vector<int>(1000, 4), memory).get();
  const mapped<int> view(memory);
  kill_target(target_);
  const node again = job_.restart(target_);
  auto later = again.allocate<int>(1000);
  put(std::vector<int>(1000, 6), later).get();
  EXPECT_THAT(std::vector<int>(view.span().begin(), view.span().end()), Each(4));
}

} // namespace
} // namespace farcall::test::places_test
