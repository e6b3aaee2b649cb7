// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/via.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::via_test {
namespace {

using ::testing::HasSubstr;

/// Runs posted functions on request.
class loop {
 public:
  void post(std::function<void()> what) {
    if (is_closed) throw std::runtime_error("the loop is closed");
    posted_.push_back(std::move(what));
  }
  std::size_t run() {
    std::vector<std::function<void()>> all;
    all.swap(posted_);
    for (const auto& what : all)
      what();
    return all.size();
  }
  bool is_closed = false;

 private:
  std::vector<std::function<void()>> posted_;
};

TEST(executors, run_what_follows_a_future) {
  loop where;
  promise<int> p;
  future<int> f = p.get_future().via(where).then([](future<int> g) { return g.get() + 1; });
  EXPECT_EQ(where.run(), 0U);
  p.set_value(1);
  EXPECT_FALSE(f.test()) << "the loop has not run";
  EXPECT_EQ(where.run(), 1U);
  EXPECT_EQ(f.get(), 2);
}

TEST(executors, run_what_follows_a_future_that_is_ready) {
  loop where;
  future<int> f = make_ready_future(1).via(where).then([](future<int> g) { return g.get() + 1; });
  EXPECT_FALSE(f.test());
  EXPECT_EQ(where.run(), 1U);
  EXPECT_EQ(f.get(), 2);
}

TEST(executors, run_what_follows_a_shared_future) {
  loop where;
  loop elsewhere;
  promise<int> p;
  const shared_future<int> all = p.get_future().share();
  future<int> first = all.via(where).then([](shared_future<int> g) { return g.get() + 1; });
  future<int> second = all.via(elsewhere).then([](shared_future<int> g) { return g.get() + 2; });
  p.set_value(1);
  EXPECT_EQ(all.get(), 1);
  EXPECT_FALSE(first.test());
  EXPECT_EQ(where.run(), 1U);
  EXPECT_EQ(first.get(), 2);
  EXPECT_FALSE(second.test()) << "the other loop has not run";
  EXPECT_EQ(elsewhere.run(), 1U);
  EXPECT_EQ(second.get(), 3);
  EXPECT_THROW((void)shared_future<int>().via(where), error);
}

TEST(executors, hand_a_shared_future_what_posting_throws) {
  loop where;
  where.is_closed = true;
  const shared_future<int> all = make_ready_future(1).share();
  future<int> f = all.via(where).then([](shared_future<int> g) { return g.get(); });
  EXPECT_THROW(f.get(), std::runtime_error);
  EXPECT_EQ(all.get(), 1);
}

TEST(executors, flatten_futures) {
  loop where;
  promise<int> inner;
  future<int> f =
      make_ready_future().via(where).then([&](future<void>) { return inner.get_future(); });
  where.run();
  EXPECT_FALSE(f.test());
  inner.set_value(3);
  EXPECT_EQ(f.get(), 3);
}

TEST(executors, that_refuse_end_what_follows) {
  loop where;
  where.is_closed = true;
  future<void> f = make_ready_future(1).via(where).then([](future<int>) {});
  EXPECT_THROW(f.get(), std::runtime_error);
}

/// Keeps posted functions, and drops them.
class ended_loop {
 public:
  void post(std::function<void()> what) { posted_.push_back(std::move(what)); }
  void end() { posted_.clear(); }

 private:
  std::vector<std::function<void()>> posted_;
};

/// Counts the objects of its type.
struct counting {
  explicit counting(int& all) : count(&all) { ++*count; }
  counting(const counting& other) : count(other.count) { ++*count; }
  counting& operator=(const counting&) = delete;
  ~counting() { --*count; }
  int* count;
};

TEST(executors, that_drop_functions_end_what_follows) {
  ended_loop where;
  int objects = 0;
  future<int> f = make_ready_future(1).via(where).then(
      [kept = counting(objects)](future<int> g) { return g.get(); });
  EXPECT_FALSE(f.test());
  EXPECT_EQ(objects, 1);
  where.end();
  EXPECT_EQ(objects, 0) << "the function is kept";
  EXPECT_THAT(text_thrown_by<error>([&] { (void)f.within(wait_limit).get(); }),
              HasSubstr("without running it"));

  future<int> shared = make_ready_future(1).share().via(where).then(
      [kept = counting(objects)](shared_future<int> g) { return g.get(); });
  where.end();
  EXPECT_EQ(objects, 0);
  EXPECT_THROW((void)shared.within(wait_limit).get(), error);
}

/// Runs the posted function, then throws.
struct late_thrower {
  static void post(const std::function<void()>& what) {
    what();
    throw std::runtime_error("behind it");
  }
};

TEST(executors, that_throw_behind_the_function_have_run_it) {
  late_thrower where;
  future<int> f = make_ready_future(1).via(where).then([](future<int> g) { return g.get() + 1; });
  EXPECT_EQ(f.get(), 2);
}

TEST(executors, may_keep_copies_of_functions_that_have_run) {
  std::vector<std::function<void()>> copies;
  struct hoarder {
    void post(std::function<void()> what) const {
      all->push_back(what);
      what();
    }
    std::vector<std::function<void()>>* all;
  } where{&copies};
  future<int> f = make_ready_future(1).via(where).then([](future<int> g) { return g.get(); });
  EXPECT_EQ(f.get(), 1);
  copies.front()();
  copies.clear();
}

TEST(executors, need_a_future_that_is_not_empty) {
  loop where;
  future<int> none;
  EXPECT_THROW((void)none.via(where), error);
}

class executors_of_jobs : public job_test {};

TEST_F(executors_of_jobs, run_what_follows_a_call) {
  loop where;
  std::thread::id ran_on;
  future<void> f = async(target_, [] { return 1; }).via(where).then([&](future<int> g) {
    EXPECT_EQ(g.get(), 1);
    ran_on = std::this_thread::get_id();
  });
  std::thread([&] {
    while (!f.test())
      where.run();
  }).join();
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

} // namespace
} // namespace farcall::test::via_test
