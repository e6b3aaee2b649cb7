// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <csignal>
#include <cstddef>
#include <ucontext.h>
#include <unistd.h>

namespace farcall::test::nesting_test {
namespace {

using ::testing::HasSubstr;

class nested_calls : public two_targets_test {};
class nested_calls_of_workers : public job_test {
 protected:
  nested_calls_of_workers() : job_test("shm:2?workers=2") {}
};

/// Calls back and forth `depth` times between the node that runs it and `other`.
int ping_pong(int depth, const node& other) {
  if (depth == 0) return 0;
  return 1 + sync(other, ping_pong, depth - 1, this_node());
}

TEST_F(nested_calls, target_calls_the_host) {
  EXPECT_EQ(sync(target_, [] { return sync(host(), ::getpid); }), ::getpid());
  static std::atomic<int> seen{0};
  sync(target_, [] {
    for (int i = 0; i < 1000; ++i)
      post(host(), [](int v) { seen += v; }, 1);
    sync(host(), [] {});
  });
  EXPECT_EQ(seen, 1000);
}

TEST_F(nested_calls, target_calls_itself) {
  const auto self_call = [] {
    return sync(this_node(), ::getpid) == ::getpid() &&
           sync(this_node(), [] { return this_node(); }) == this_node();
  };
  EXPECT_TRUE(sync(target_, self_call));
}

TEST_F(nested_calls, target_calls_another_target_directly) {
  const auto ask = [](const node& there) {
    return std::pair(sync(there, ::getpid), there.description().transport);
  };
  const auto [pid, transport] = sync(target_, ask, other_);
  EXPECT_EQ(static_cast<std::uint64_t>(pid), other_.description().pid);
  EXPECT_EQ(transport, "shm");
}

TEST_F(nested_calls, targets_call_each_other_beside_an_idle_host) {
  handshake done(target_);
  post(
      target_,
      [](const node& there, handshake::words words) {
        const int pid = sync(there, ::getpid);
        handshake::set(words.local(), 0, static_cast<std::uint32_t>(pid));
      },
      other_, done.span());
  EXPECT_TRUE(done.wait(0));
  EXPECT_EQ(done.get(0), other_.description().pid);
}

TEST_F(nested_calls, a_thousand_deep_between_host_and_target) {
  EXPECT_EQ(sync(target_, ping_pong, 1000, job_.host()), 1000);
  EXPECT_EQ(sync(target_, ping_pong, 1000, job_.host()), 1000) << "only once";
}

TEST_F(nested_calls, a_thousand_deep_between_targets) {
  EXPECT_EQ(sync(target_, ping_pong, 1000, other_), 1000);
  EXPECT_EQ(sync(other_, ping_pong, 1000, target_), 1000);
}

TEST_F(nested_calls, a_thousand_deep_into_itself) {
  EXPECT_EQ(sync(target_, ping_pong, 1000, target_), 1000);
  EXPECT_EQ(sync(job_.host(), ping_pong, 1000, job_.host()), 1000);
}

TEST_F(nested_calls_of_workers, a_thousand_deep) {
  const node other = job_.targets().at(1);
  EXPECT_EQ(sync(target_, ping_pong, 1000, job_.host()), 1000);
  EXPECT_EQ(sync(target_, ping_pong, 1000, other), 1000);
}

int around(int depth) {
  if (depth == 0) return 0;
  return 1 + sync(node_at((this_node().id() + 1) % 3), around, depth - 1);
}

TEST_F(nested_calls, a_thousand_deep_around_three_nodes) {
  EXPECT_EQ(sync(target_, around, 1000), 1000);
}

TEST_F(nested_calls, several_recursions_at_once) {
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const node to = i % 2 == 0 ? target_ : other_;
      sum += sync(to, ping_pong, 50, i < 2 ? job_.host() : (i == 2 ? other_ : target_));
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(sum, 200);
}

TEST_F(nested_calls, many_recursions_of_many_threads) {
  // Host threads serve each other's recursions; a call that arrives in a lane of a sleeping thread
  // must wake that thread.
  std::vector<std::thread> threads;
  std::atomic<int> stuck{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 60 && stuck == 0; ++round) {
        future<int> f =
            async(t % 2 == 0 ? target_ : other_, ping_pong, 1 + (t * 7 + round) % 40, job_.host());
        if (!f.wait_for(std::chrono::seconds(20))) ++stuck;
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(stuck, 0);
}

TEST(nested_calls_in_narrow_lanes, a_waiting_worker_still_sends_deferred_replies) {
  job_options options;
  options.targets = "shm";
  options.lane_bytes = 4096;
  const job j(options);
  const node target = j.targets()[0];
  using block = std::array<double, 16>;
  // These replies are not taken until the call back from the target asks for the last one.
  static std::vector<future<block>> replies;
  // For ThreadSanitizer, which does not see an order established by another process.
  static std::atomic<int> step{0};
  for (double i = 0; i < 100; ++i) {
    replies.push_back(async(target, [](double v) { return block{v}; }, i));
  }
  step = 1;
  std::thread other_lane([&] {
    auto f = async(target, [] {
      return sync(host(), [] {
        const double last = step == 1 ? replies.back().get().front() : -1;
        step = 2;
        return last;
      });
    });
    ASSERT_TRUE(f.wait_for(std::chrono::seconds(20)));
    EXPECT_EQ(f.get(), 99);
  });
  other_lane.join();
  EXPECT_EQ(step, 2);
  replies.clear();
}

TEST_F(nested_calls, exceptions_pass_through_every_level) {
  const auto thrower = [] { throw std::out_of_range("deep inside"); };
  const auto middle = [thrower](const node& there) { sync(there, thrower); };
  const auto e = thrown_by<remote_error>([&] { sync(target_, middle, other_); });
  ASSERT_TRUE(e);
  // The middle handler threw what it had received: a remote_error.
  EXPECT_EQ(e->type_name(), "farcall::remote_error");
  EXPECT_THAT(e->text(), HasSubstr("std::out_of_range"));
  EXPECT_THAT(e->text(), HasSubstr("deep inside"));
  EXPECT_THAT(e->text(), HasSubstr("node 2"));
  EXPECT_EQ(e->node(), target_.id());
}

TEST_F(nested_calls, futures_inside_handlers) {
  const auto many = [](const node& there) {
    std::vector<future<int>> all;
    for (int i = 0; i < 1000; ++i)
      all.push_back(async(there, [](int v) { return 2 * v; }, i));
    int sum = 0;
    for (auto& f : all)
      sum += f.get();
    return sum;
  };
  EXPECT_EQ(sync(target_, many, other_), 999'000);
  EXPECT_EQ(sync(target_, many, job_.host()), 999'000);
  EXPECT_EQ(sync(target_, many, target_), 999'000);
}

TEST_F(nested_calls, threads_that_a_handler_starts_may_call) {
  const auto threaded = [](const node& there) {
    std::atomic<int> sum{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i)
          sum += sync(there, [](int v) { return v; }, i);
      });
    }
    for (auto& t : threads)
      t.join();
    return sum.load();
  };
  EXPECT_EQ(sync(target_, threaded, other_), 19'800);
  EXPECT_EQ(sync(target_, threaded, job_.host()), 19'800);
}

TEST_F(nested_calls, targets_that_flood_each_other) {
  // Each is called while its own lane to the other is full.
  const auto flood = [](const node& there) {
    std::vector<future<std::size_t>> all;
    for (int i = 0; i < 2000; ++i) {
      all.push_back(
          async(there, [](const std::string& s) { return s.size(); }, std::string(500, 'f')));
    }
    std::size_t sum = 0;
    for (auto& f : all)
      sum += f.get();
    return sum;
  };
  future<std::size_t> a = async(target_, flood, other_);
  future<std::size_t> b = async(other_, flood, target_);
  EXPECT_EQ(a.get(), 1'000'000U);
  EXPECT_EQ(b.get(), 1'000'000U);
}

TEST_F(nested_calls, the_host_serves_while_its_own_threads_do_nothing) {
  handshake done(target_);
  post(
      target_,
      [](handshake::words words) {
        handshake::set(words.local(), 0, static_cast<std::uint32_t>(sync(host(), ::getpid)));
      },
      done.span());
  EXPECT_TRUE(done.wait(0)) << "nobody served the target's call";
  EXPECT_EQ(done.get(0), static_cast<std::uint32_t>(::getpid()));
}

TEST_F(nested_calls, a_future_of_the_service_thread_wakes_others) {
  // The reply notifies the service thread, whose doorbell other threads mask while they serve
  // callbacks.
  static future<int> handed;
  static std::atomic<bool> made{false};
  post(target_, [] {
    post(host(), [] {
      handed = async(node_at(1), [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return 7;
      });
      made = true;
    });
  });
  while (!made)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::atomic<bool> woken{false};
  const auto begin = clock::now();
  std::thread waiting([&] {
    EXPECT_TRUE(handed.wait_for(std::chrono::seconds(30)));
    woken = true;
  });
  while (!woken && clock::now() - begin < std::chrono::seconds(10))
    (void)sync(other_, [] { return sync(host(), [] { return 1; }); });
  EXPECT_TRUE(woken) << "only the deadline wakes the thread";
  waiting.join();
  EXPECT_EQ(handed.get(), 7);
}

// ---- waits of handlers that do not end in the order in which they began
// --------------------------

// For ThreadSanitizer, which does not see an order established by another process.
std::atomic<bool> first_call_is_made{false};
std::atomic<bool> second_has_begun{false};
future<void> first_call;

TEST_F(nested_calls, a_handler_goes_on_before_a_later_one) {
  second_has_begun = false;
  // Waits until the second has begun, on the same worker.
  first_call = async(
      target_,
      [](const node& there) {
        sync(there, [] {
          while (!sync(host(), [] { return second_has_begun.load(); })) {
          }
        });
      },
      other_);
  first_call_is_made = true;
  // Waits until the first has ended.
  future<void> second = async(target_, [] {
    sync(host(), [] { second_has_begun = true; });
    sync(host(), [] {
      if (first_call_is_made) first_call.wait();
      first_call_is_made = false;
    });
  });
  ASSERT_TRUE(second.wait_for(std::chrono::seconds(60)));
  EXPECT_FALSE(first_call_is_made);
  EXPECT_TRUE(first_call.test());
  first_call = {};
}

std::atomic<int> callbacks{0};
std::atomic<int> ended{0};

TEST_F(nested_calls, callbacks_that_wait_for_each_other_end) {
  constexpr int count = 300;
  callbacks = 0;
  ended = 0;
  std::vector<future<void>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(async(
        target_,
        [](int number) {
          sync(
              host(),
              [](int n) {
                ++callbacks;
                // The first to begin may end first: each waits until all have begun.
                while (callbacks < count)
                  sync(node_at(2), [] {});
                ended += n;
              },
              number);
        },
        i));
  }
  for (auto& f : all)
    ASSERT_TRUE(f.wait_for(std::chrono::seconds(60)));
  EXPECT_EQ(ended, count * (count - 1) / 2);
}

int leaf(int v) { return v; }
future<int> one_more_later(const node& of, int v) {
  return async(of, leaf, v).then([](future<int> f) { return f.get() + 1; });
}
int by_way_of(const node& first, const node& third, int v) {
  return sync(first, one_more_later, third, v);
}
int waits_for(const node& second, const node& first, const node& third, int v) {
  return sync(second, by_way_of, first, third, v);
}

TEST_F(nested_calls, a_waiting_handler_takes_replies_it_indirectly_needs) {
  // The first waits for the second, which waits for the first's call to the third.
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(sync(target_.within(wait_limit), waits_for, other_, target_, job_.host(), i), i + 1);
}

TEST_F(nested_calls, a_waiting_thread_takes_replies_it_indirectly_needs) {
  handshake words(job_.host());
  for (std::uint32_t i = 0; i < 8; ++i) {
    future<bool> last = async(
        target_.within(wait_limit),
        [](handshake::words w, std::uint32_t at) { return handshake::wait(map(w), at, 1); },
        words.span(), i);
    const future<void> first = async(other_, leaf, 1).then([&](const future<int>& f) {
      if (f.valid()) words.set(i);
    });
    EXPECT_TRUE(last.get());
  }
}

TEST_F(nested_calls, a_handler_that_polls_lets_others_run) {
  future<int> f = async(target_, [] {
    future<int> back = async(host(), [] { return sync(node_at(1), [] { return 7; }); });
    while (!back.test()) {
    }
    return back.get();
  });
  ASSERT_TRUE(f.wait_for(std::chrono::seconds(60)));
  EXPECT_EQ(f.get(), 7);
}

TEST_F(nested_calls, that_are_too_deep_are_refused) {
  for (const node& other : {job_.host(), other_, target_}) {
    future<int> f = async(target_, ping_pong, 50'000, other);
    ASSERT_TRUE(f.wait_for(std::chrono::seconds(120)));
    const auto e = thrown_by<nested_too_deep>([&] { f.get(); });
    ASSERT_TRUE(e);
    EXPECT_THAT(e->what(), HasSubstr("handlers wait there"));
    EXPECT_EQ(e->node(), target_.id());
  }
  EXPECT_EQ(sync(target_, ping_pong, 1000, job_.host()), 1000) << "it still works";
}

TEST_F(nested_calls, from_a_stack_that_a_handler_has_made) {
  future<int> f = async(target_, [] {
    static ucontext_t handler;
    static ucontext_t own;
    static int result = 0;
    std::vector<std::byte> stack(std::size_t{256} << 10);
    ::getcontext(&own);
    own.uc_stack.ss_sp = stack.data();
    own.uc_stack.ss_size = stack.size();
    own.uc_link = &handler;
    ::makecontext(&own, [] { result = sync(this_node(), [] { return 5; }); }, 0);
    ::swapcontext(&handler, &own);
    return result;
  });
  ASSERT_TRUE(f.wait_for(std::chrono::seconds(60)));
  EXPECT_EQ(f.get(), 5);
}

TEST_F(nested_calls, end_at_their_deadline_despite_later_waits) {
  future<bool> first = async(
      target_,
      [](const node& there) {
        future<int> never = async(there, ::pause);
        return never.wait_for(std::chrono::milliseconds(300));
      },
      other_);
  // Begins on the same worker while the first waits, and ends only with the other node.
  future<int> second =
      async(target_, [](const node& there) { return sync(there, ::pause); }, other_);
  ASSERT_TRUE(first.wait_for(std::chrono::seconds(60)));
  EXPECT_FALSE(first.get());
  EXPECT_FALSE(second.test());
  ::kill(static_cast<pid_t>(other_.description().pid), SIGKILL);
  ASSERT_TRUE(second.wait_for(std::chrono::seconds(60)));
  EXPECT_THROW((void)second.get(), remote_error);
}

} // namespace
} // namespace farcall::test::nesting_test
