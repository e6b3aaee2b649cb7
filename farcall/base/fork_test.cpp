// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/fork.hpp>
#include <tests/child.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace farcall::test::fork_test {
namespace {

class counter final : public fork_observer {
 public:
  counter() { watch_forks(); }
  counter(const counter&) = delete;
  counter& operator=(const counter&) = delete;
  ~counter() { unwatch_forks(); }

  int before = 0;
  int in_parent = 0;
  int in_child = 0;

 private:
  void before_fork() noexcept override { ++before; }
  void after_fork_in_parent() noexcept override { ++in_parent; }
  void after_fork_in_child() noexcept override { ++in_child; }
};

TEST(fork_observer, is_told_of_a_fork) {
  const counter c;
  const std::uint32_t generation = fork_generation();
  forked_child child([&] {
    return c.before == 1 && c.in_parent == 0 && c.in_child == 1 &&
                   fork_generation() == generation + 1
               ? 0
               : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(c.before, 1);
  EXPECT_EQ(c.in_parent, 1);
  EXPECT_EQ(c.in_child, 0);
  EXPECT_EQ(fork_generation(), generation);
}

TEST(fork_observer, is_told_in_children_of_children) {
  const std::uint32_t generation = fork_generation();
  forked_child child([&] {
    const counter c;
    return forked_child(
               [&] { return c.in_child == 1 && fork_generation() == generation + 2 ? 0 : 1; })
        .wait();
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(fork_observer, is_not_called_after_its_destruction) {
  auto first = std::make_unique<counter>();
  auto second = std::make_unique<counter>();
  auto third = std::make_unique<counter>();
  second.reset();
  third.reset();
  auto fourth = std::make_unique<counter>();
  first.reset();
  const counter fifth;
  forked_child child([&] { return fourth->in_child == 1 && fifth.in_child == 1 ? 0 : 1; });
  EXPECT_EQ(child.wait(), 0);
}

/// The guarded data is consistent in the child.
class guarded_pair final : public fork_observer {
 public:
  guarded_pair() { watch_forks(); }
  guarded_pair(const guarded_pair&) = delete;
  guarded_pair& operator=(const guarded_pair&) = delete;
  ~guarded_pair() { unwatch_forks(); }

  void count() {
    const std::lock_guard guard(mutex_);
    ++first_;
    std::this_thread::yield();
    ++second_;
  }
  [[nodiscard]] bool is_whole() {
    const std::lock_guard guard(mutex_);
    return first_ == second_;
  }

 private:
  void before_fork() noexcept override { mutex_.lock(); }
  void after_fork_in_parent() noexcept override { mutex_.unlock(); }
  void after_fork_in_child() noexcept override { mutex_.unlock(); }

  std::mutex mutex_;
  long first_ = 0;
  long second_ = 0;
};

TEST(fork_observer, may_hold_a_lock_meanwhile) {
  guarded_pair pair;
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!stop)
      pair.count();
  });
  // The list of observers changes at the same time.
  others.emplace_back([&] {
    while (!stop)
      const counter c;
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(forked_child([&] { return pair.is_whole() ? 0 : 1; }).wait(), 0);
  stop = true;
  for (std::thread& t : others)
    t.join();
}

} // namespace
} // namespace farcall::test::fork_test
