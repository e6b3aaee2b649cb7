// SPDX-License-Identifier: Apache-2.0

// Nodes that join and leave while a job runs.

#include <farcall/async/call.hpp>
#include <farcall/async/promise.hpp>
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
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

namespace farcall::test::members_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class members : public two_targets_test {
 protected:
  static job_options quick() {
    job_options o = with_targets("shm:2");
    o.stop_timeout = std::chrono::seconds(20);
    return o;
  }
};

// ---- joining ------------------------------------------------------------------------------------

TEST_F(members, are_called_like_the_others_once_they_were_added) {
  const node added = job_.add("shm");
  EXPECT_EQ(added.id(), 3U);
  EXPECT_EQ(job_.size(), 4U);
  EXPECT_EQ(sync(added, fn<&own_number>), 3U);
  EXPECT_EQ(added.description().name, "node 3");
  EXPECT_EQ(job_.node_at(3), added);
  EXPECT_THAT(numbers_of(job_.live_targets()), ElementsAre(1, 2, 3));
  EXPECT_EQ(job_.targets().size(), 2U);
}

TEST_F(members, that_were_added_are_introduced_to_the_others) {
  const node added = job_.add("shm?name=late");
  const node another = job_.add("shm");
  EXPECT_EQ(sync(target_, fn<&ask_number_of>, added.id()), added.id());
  EXPECT_EQ(sync(added, fn<&ask_number_of>, other_.id()), other_.id());
  EXPECT_EQ(sync(added, fn<&ask_number_of>, another.id()), another.id());
  EXPECT_EQ(sync(added, fn<&ask_number_of>, host_id), host_id);
  // A handle arrives before the node is introduced.
  const auto name_of = [](const node& n) { return n.name(); };
  EXPECT_EQ(sync(other_, name_of, added), "late");
}

TEST_F(members, that_were_added_share_memory) {
  const node added = job_.add("shm");
  auto there = added.allocate<int>(1000);
  put(std::vector<int>(1000, 5), there).get();
  const auto sum = [](remote_span<int> span) {
    std::vector<int> here(span.size());
    get(span, std::span(here)).get();
    return std::accumulate(here.begin(), here.end(), 0);
  };
  EXPECT_EQ(sync(target_, sum, there.span()), 5000);
  auto here = target_.allocate<int>(1000);
  put(std::vector<int>(1000, 6), here).get();
  EXPECT_EQ(sync(added, sum, here.span()), 6000);
}

TEST_F(members, may_be_added_several_at_a_time) {
  const std::vector<std::string> urls{"shm:2", "shm?name=last"};
  const std::vector<node> added = job_.add(urls);
  EXPECT_THAT(numbers_of(added), ElementsAre(3, 4, 5));
  EXPECT_EQ(added.back().name(), "last");
  for (const node& n : added)
    EXPECT_EQ(sync(n, fn<&own_number>), n.id());
  EXPECT_TRUE(job_.add(std::vector<std::string>()).empty());
}

TEST_F(members, that_cannot_be_added_leave_nothing_behind) {
  const std::vector<std::string> urls{"shm", "shm?program=/nowhere/app"};
  EXPECT_THAT(text_thrown_by<start_failed>([&] { (void)job_.add(urls); }),
              HasSubstr("/nowhere/app"));
  EXPECT_EQ(job_.size(), 3U);
  EXPECT_THAT(numbers_of(job_.live_targets()), ElementsAre(1, 2));
  const node added = job_.add("shm");
  EXPECT_EQ(sync(added, fn<&own_number>), added.id());
  EXPECT_EQ(sync(target_, fn<&ask_number_of>, added.id()), added.id());
}

TEST_F(members, that_make_no_sense_are_errors_that_say_why) {
  EXPECT_THAT(text_thrown_by<setting_error>([&] { (void)job_.add("shm:2"); }),
              HasSubstr("2 targets"));
  EXPECT_THAT(text_thrown_by<setting_error>([&] { (void)job_.add("smoke"); }), HasSubstr("smoke"));
  EXPECT_THAT(text_thrown_by<setting_error>([&] { (void)job_.add("tcp://localhost:1"); }),
              HasSubstr("has started without"));
}

TEST_F(members, join_while_threads_call_the_others) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> calls{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const node& to = i % 2 == 0 ? target_ : other_;
      while (!stop.load(std::memory_order_relaxed)) {
        if (sync(to, fn<&own_number>) != to.id()) break;
        calls.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::vector<std::thread> adding;
  std::mutex mutex;
  std::vector<node> added;
  for (int i = 0; i < 3; ++i) {
    adding.emplace_back([&] {
      const node made = job_.add("shm");
      if (sync(made, fn<&own_number>) != made.id()) return;
      const std::lock_guard guard(mutex);
      added.push_back(made);
    });
  }
  for (std::thread& t : adding)
    t.join();
  job_.remove(added.front());
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(added.size(), 3U);
  EXPECT_GT(calls.load(std::memory_order_relaxed), 0U);
  EXPECT_EQ(job_.live_targets().size(), 4U);
}

// ---- leaving ------------------------------------------------------------------------------------

TEST_F(members, that_were_removed_take_no_calls) {
  EXPECT_EQ(sync(other_, fn<&own_number>), other_.id());
  EXPECT_EQ(sync(target_, fn<&ask_number_of>, other_.id()), other_.id());
  const pid_t pid = pid_of(other_);
  job_.remove(other_);
  EXPECT_NE(::kill(pid, 0), 0);
  EXPECT_FALSE(other_.alive());
  EXPECT_THAT(text_thrown_by<node_failed>([&] { (void)sync(other_, fn<&own_number>); }),
              AllOf(HasSubstr("node 2"), HasSubstr("removed")));
  EXPECT_THAT(sync(target_, fn<&failure_of_call_to>, other_.id()), HasSubstr("removed"));
  EXPECT_THAT(numbers_of(job_.live_targets()), ElementsAre(1));
  EXPECT_EQ(job_.size(), 3U);
  job_.remove(other_);
  EXPECT_EQ(sync(target_, fn<&own_number>), target_.id());
  const node added = job_.add("shm");
  EXPECT_THAT(sync(added, fn<&failure_of_call_to>, other_.id()), HasSubstr("removed"));
}

TEST_F(members, that_are_removed_end_the_calls_they_have_got) {
  handshake shared(target_);
  const auto wait = [](handshake::words words, int value) {
    const auto here = map(words);
    handshake::add(here, 0);
    return handshake::wait(here, 1, 1) ? value : -1;
  };
  std::vector<future<int>> results;
  for (int i = 0; i < 20; ++i)
    results.push_back(async(other_, wait, shared.span(), i));
  ASSERT_TRUE(shared.wait(0));
  std::thread removing([&] { job_.remove(other_); });
  // The node refuses new calls while it ends the old ones.
  EXPECT_TRUE(eventually([&] { return job_.live_targets().size() == 1; }));
  shared.set(1);
  removing.join();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(results[static_cast<std::size_t>(i)].get(), i);
}

TEST_F(members, that_do_not_end_in_time_are_killed) {
  job_options o = with_targets("shm:2");
  o.stop_timeout = std::chrono::milliseconds(50);
  job j(o);
  const node busy = j.targets().front();
  future<void> endless = async(busy, [] {
    for (;;)
      ::pause();
  });
  j.remove(busy);
  EXPECT_FALSE(busy.alive());
  EXPECT_THROW(endless.get(), node_failed);
  EXPECT_EQ(sync(j.targets().back(), fn<&own_number>), 2U);
}

TEST_F(members, that_cannot_be_removed_are_errors_that_say_why) {
  EXPECT_THAT(text_thrown_by<error>([&] { job_.remove(job_.host()); }), HasSubstr("node 0"));
  const job another(with_targets("shm"));
  EXPECT_THAT(text_thrown_by<error>([&] { job_.remove(another.targets().front()); }),
              HasSubstr("another job"));
  EXPECT_THROW(job_.remove(node()), error);
}

// ---- coming back --------------------------------------------------------------------------------

TEST_F(members, start_again_as_new_nodes) {
  job j(with_targets("shm?name=worker,shm"));
  const node old = j.targets().front();
  const node witness = j.targets().back();
  EXPECT_EQ(sync(witness, fn<&ask_number_of>, old.id()), old.id());
  auto memory = old.allocate<int>(10);
  future<void> lost = async(old, [] { ::pause(); });
  kill_target(old);
  EXPECT_THROW(lost.get(), node_failed);
  const node again = j.restart(old);
  EXPECT_EQ(again.id(), 3U);
  EXPECT_NE(again, old);
  EXPECT_EQ(again.name(), "worker");
  EXPECT_EQ(sync(again, fn<&own_number>), 3U);
  EXPECT_EQ(sync(witness, fn<&ask_number_of>, again.id()), again.id());
  // Handles of the old node stay failed.
  EXPECT_FALSE(old.alive());
  EXPECT_THROW((void)sync(old, fn<&own_number>), node_failed);
  EXPECT_THROW(put(std::vector<int>(10, 1), memory).get(), node_failed);
  EXPECT_THAT(sync(witness, fn<&failure_of_call_to>, old.id()), HasSubstr("node 1"));
  EXPECT_THAT(numbers_of(j.live_targets()), ElementsAre(2, 3));
}

TEST_F(members, that_were_removed_can_start_again) {
  job_.remove(other_);
  const node again = job_.restart(other_);
  EXPECT_EQ(sync(again, fn<&own_number>), again.id());
}

TEST_F(members, that_cannot_start_again_are_errors_that_say_why) {
  EXPECT_THAT(text_thrown_by<error>([&] { (void)job_.restart(other_); }), HasSubstr("is alive"));
  EXPECT_THAT(text_thrown_by<error>([&] { (void)job_.restart(job_.host()); }), HasSubstr("alive"));
  const node nowhere(*job_.host().job(), 77);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)job_.restart(nowhere); }), HasSubstr("no node 77"));
}

// ---- what is told -------------------------------------------------------------------------------

class changes {
 public:
  void add(const node_event& e) {
    const std::lock_guard guard(mutex_);
    all_.emplace_back(e.where.id(), e.what);
  }
  std::vector<std::pair<node_id, node_change>> all() {
    const std::lock_guard guard(mutex_);
    return all_;
  }
  [[nodiscard]] bool wait_for(std::size_t count) {
    return eventually([&] { return all().size() >= count; });
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<node_id, node_change>> all_;
};

TEST_F(members, are_told_of_in_order) {
  changes received;
  job_.on_node_change([&](const node_event& e) { received.add(e); });
  const node added = job_.add("shm");
  ASSERT_TRUE(received.wait_for(1));
  job_.remove(added);
  ASSERT_TRUE(received.wait_for(2));
  kill_target(other_);
  ASSERT_TRUE(received.wait_for(3));
  EXPECT_THAT(received.all(),
              ElementsAre(std::pair{3U, node_change::joined}, std::pair{3U, node_change::removed},
                          std::pair{2U, node_change::failed}));
}

TEST_F(members, are_reported_one_after_the_other_during_waits) {
  const node third = job_.add("shm");
  std::atomic<int> inside{0};
  std::atomic<int> at_once{0};
  std::atomic<int> told{0};
  std::atomic<bool> are_both_dead{false};
  job_.on_node_change([&](const node_event&) {
    at_once = std::max(at_once.load(), ++inside);
    EXPECT_TRUE(eventually([&] { return are_both_dead.load(); }));
    // Other continuations run meanwhile.
    EXPECT_EQ(sync(third, fn<&own_number>), 3U);
    --inside;
    ++told;
  });
  kill_target(target_);
  kill_target(other_);
  are_both_dead = true;
  // A thread that waits for a local event runs continuations.
  EXPECT_TRUE(eventually([&] {
    promise<void> nobody_keeps;
    (void)nobody_keeps.get_future().wait_for(std::chrono::milliseconds(1));
    return told == 2;
  }));
  EXPECT_EQ(at_once, 1);
}

TEST(members_of_a_job, are_not_told_of_when_it_ends) {
  changes received;
  {
    job j(with_targets("shm:2"));
    j.on_node_change([&](const node_event& e) { received.add(e); });
    EXPECT_EQ(sync(j.targets()[0], fn<&own_number>), 1U);
  }
  EXPECT_TRUE(received.all().empty());
}

TEST_F(members, may_be_restarted_by_an_observer) {
  changes received;
  job_.on_node_change([&](const node_event& e) {
    // Calls and waits work in an observer, too.
    if (e.what == node_change::failed) (void)sync(job_.restart(e.where), fn<&own_number>);
    received.add(e);
    throw error("nobody minds");
  });
  kill_target(target_);
  ASSERT_TRUE(received.wait_for(2));
  EXPECT_THAT(received.all(),
              ElementsAre(std::pair{1U, node_change::failed}, std::pair{3U, node_change::joined}));
  EXPECT_EQ(sync(job_.node_at(3), fn<&own_number>), 3U);
}

TEST_F(members, come_and_go_for_long) {
  constexpr unsigned rounds = 30;
  for (unsigned i = 0; i < rounds; ++i) {
    const node added = job_.add("shm");
    ASSERT_EQ(added.id(), 3 + i);
    ASSERT_EQ(sync(target_, fn<&ask_number_of>, added.id()), added.id());
    job_.remove(added);
  }
  EXPECT_THAT(numbers_of(job_.live_targets()), ElementsAre(1, 2));
}

} // namespace
} // namespace farcall::test::members_test
