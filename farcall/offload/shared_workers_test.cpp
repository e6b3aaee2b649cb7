// SPDX-License-Identifier: Apache-2.0

// Several workers of a target: another worker takes over the lanes of a busy one.

#include <farcall/async/call.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test::shared_workers_test {
namespace {

// ---- what runs on targets -----------------------------------------------------------------------

std::atomic<int> gate{0};
std::atomic<int> blocked{0}; ///< calls of block_until() that have begun

int thread_id() { return static_cast<int>(::gettid()); }

void raise_gate(int to) { gate = to; }

/// Keeps its worker busy until another call has raised the gate. Returns false if none does in
/// time.
bool block_until(int gate_is) {
  ++blocked;
  return eventually([=] { return gate >= gate_is; });
}

/// Waits for the host, which replies once its own gate is raised; meanwhile the worker serves other
/// calls.
bool wait_for_host(int gate_is) {
  return sync(host(), [](int g) { return eventually([=] { return gate >= g; }); }, gate_is);
}

// ---- threads that call --------------------------------------------------------------------------

/// A thread that makes calls one after the other, with lanes of its own.
class caller {
 public:
  caller() : thread_([this] { run(); }) {}
  caller(const caller&) = delete;
  caller& operator=(const caller&) = delete;
  ~caller() {
    add([this] { is_over_ = true; });
    thread_.join();
  }

  template <class F>
  [[nodiscard]] auto begin(F f) {
    auto made = std::make_shared<std::packaged_task<decltype(f())()>>(std::move(f));
    auto result = made->get_future();
    add([made] { (*made)(); });
    return result;
  }
  template <class F>
  auto call(F f) {
    return begin(std::move(f)).get();
  }

 private:
  void add(std::function<void()> what) {
    const std::lock_guard guard(mutex_);
    todo_.push_back(std::move(what));
    changed_.notify_one();
  }
  void run() {
    while (!is_over_) {
      std::unique_lock guard(mutex_);
      changed_.wait(guard, [this] { return !todo_.empty(); });
      const std::function<void()> next = std::move(todo_.front());
      todo_.pop_front();
      guard.unlock();
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> todo_;
  bool is_over_ = false;
  std::thread thread_;
};

/// A target with several workers.
class shared_workers : public job_test {
 protected:
  explicit shared_workers(const std::string& url = "shm?workers=2") : job_test(url) {
    gate = 0;
    // The lanes that a process opens are assigned to the workers in turn.
    for (auto& c : callers_)
      (void)c.call([this] { return sync(target_, thread_id); });
  }

  /// Waits until `n` calls of block_until() have begun.
  [[nodiscard]] bool are_blocked(int n) {
    return eventually([&] { return sync(aside_, [] { return blocked.load(); }) >= n; });
  }

  /// Callers whose lanes have the same worker.
  caller& one() { return callers_[0]; }
  caller& two() { return callers_[2]; }
  caller& three() { return callers_[4]; }

  lane aside_{target_};

 private:
  std::array<caller, 5> callers_;
};

TEST_F(shared_workers, serve_what_waits_behind_a_handler_that_blocks) {
  for (int round = 1; round <= 20; ++round) {
    auto first = one().begin([&] { return sync(target_, block_until, round); });
    ASSERT_TRUE(are_blocked(round));
    two().call([&] { sync(target_, raise_gate, round); });
    ASSERT_TRUE(first.get()) << round;
  }
}

TEST_F(shared_workers, serve_it_although_all_others_sleep) {
  for (int round = 1; round <= 3; ++round) {
    // Much longer than idle workers spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    auto first = one().begin([&] { return sync(target_, block_until, round); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    two().call([&] { sync(target_, raise_gate, round); });
    ASSERT_TRUE(first.get()) << round;
  }
}

TEST_F(shared_workers, take_over_from_one_that_has_taken_over) {
  auto first = one().begin([&] { return sync(target_, block_until, 2); });
  ASSERT_TRUE(are_blocked(1));
  (void)two().call([&] { return sync(target_, thread_id); });
  auto second = two().begin([&] { return sync(target_, block_until, 1); });
  ASSERT_TRUE(are_blocked(2));
  auto third = three().begin([&] { sync(target_, raise_gate, 1); });
  // Both workers are busy: only calls in the lane aside_, which has a separate worker, can proceed.
  sync(aside_, raise_gate, 1);
  EXPECT_TRUE(second.get());
  third.get();
  sync(aside_, raise_gate, 2);
  EXPECT_TRUE(first.get());
}

TEST_F(shared_workers, go_on_with_a_lane_whose_handler_waits) {
  // The first handler waits for the host; another then keeps their worker busy, until the next
  // request of the first lane has run elsewhere.
  auto waits = one().call([&] { return async(target_, wait_for_host, 1); });
  // This call is behind the first in the lane, so that one has begun.
  (void)one().call([&] { return sync(target_, thread_id); });
  auto second = two().begin([&] { return sync(target_, block_until, 1); });
  ASSERT_TRUE(are_blocked(1));
  one().call([&] { sync(target_, raise_gate, 1); });
  EXPECT_TRUE(second.get());
  gate = 1;
  EXPECT_TRUE(one().call([&] { return waits.get(); }));
}

TEST_F(shared_workers, reply_from_one_and_serve_on_another) {
  constexpr int most = 50;
  std::vector<future<bool>> all = one().call([&] {
    std::vector<future<bool>> waiting;
    for (int i = 0; i < most; ++i)
      waiting.push_back(async(target_, wait_for_host, 1));
    return waiting;
  });
  auto second = two().begin([&] { return sync(target_, block_until, 1); });
  ASSERT_TRUE(are_blocked(1));
  one().call([&] {
    sync(target_, raise_gate, 1);
    // Handlers that end on one worker, while the other serves calls.
    gate = 1;
    for (int i = 0; i < 20 * most; ++i)
      all.push_back(async(target_, [] { return true; }));
    for (auto& f : all)
      EXPECT_TRUE(f.get());
  });
  EXPECT_TRUE(second.get());
}

TEST_F(shared_workers, give_lanes_back) {
  auto first = one().begin([&] { return sync(target_, block_until, 1); });
  ASSERT_TRUE(are_blocked(1));
  two().call([&] { sync(target_, raise_gate, 1); });
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return two().call([&] { return sync(target_, thread_id); }) ==
           one().call([&] { return sync(target_, thread_id); });
  }));
}

TEST_F(shared_workers, fork_while_lanes_are_elsewhere) {
  if (under_thread_sanitizer) GTEST_SKIP() << "it lets no child of a process with threads be";
  auto first = one().begin([&] { return sync(target_, block_until, 1); });
  ASSERT_TRUE(are_blocked(1));
  const int status = two().call([&] {
    return sync(target_, [] {
      const pid_t child = ::fork();
      if (child == 0) return -1; // ends on a thread of farcall
      int ended = -1;
      ::waitpid(child, &ended, 0);
      return ended;
    });
  });
  EXPECT_EQ(status, 0);
  two().call([&] { sync(target_, raise_gate, 1); });
  EXPECT_TRUE(first.get());
}

// ---- order --------------------------------------------------------------------------------------

struct stream {
  std::atomic<std::uint32_t> begun{0};
  std::atomic<bool> is_running{false};
};
constexpr std::size_t streams = 8;
std::array<stream, streams> all_streams;
std::atomic<std::uint32_t> out_of_order{0};

/// The `n`th call of a stream: records whether the call before has begun, and has ended or waits.
std::uint32_t step(std::uint32_t of, std::uint32_t n) {
  stream& s = all_streams.at(of);
  if (s.is_running.exchange(true) || s.begun.exchange(n + 1) != n) ++out_of_order;
  switch (scrambled(std::uint64_t{of} << 32 | n) % 16) {
  case 0:
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    break;
  case 1:
    s.is_running = false;
    (void)sync(host(), [] { return 0; });
    return n;
  case 2:
    s.is_running = false;
    (void)sync(this_node(), [] { return 0; });
    return n;
  default:
    break;
  }
  s.is_running = false;
  return n;
}

class many_shared_workers : public job_test {
 protected:
  many_shared_workers() : job_test("shm?workers=4") {}
};

TEST_F(many_shared_workers, keep_the_order_of_each_lane) {
  constexpr std::uint32_t calls = under_sanitizer ? 500 : 4000;
  std::vector<std::thread> all;
  std::atomic<std::uint32_t> wrong{0};
  for (std::uint32_t t = 0; t < streams; ++t) {
    all.emplace_back([&, t] {
      std::deque<future<std::uint32_t>> pending;
      std::uint32_t taken = 0;
      for (std::uint32_t i = 0; i < calls; ++i) {
        pending.push_back(async(target_, step, t, i));
        const std::size_t window = t % 2 == 0 ? 1 : 32;
        while (pending.size() >= window) {
          wrong += pending.front().get() == taken++ ? 0 : 1;
          pending.pop_front();
        }
      }
      for (auto& f : pending)
        wrong += f.get() == taken++ ? 0 : 1;
    });
  }
  for (auto& t : all)
    t.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(sync(target_, [] { return out_of_order.load(); }), 0U);
}

/// Without other lanes.
class shared_workers_alone : public job_test {
 protected:
  shared_workers_alone() : job_test("shm?workers=2") {}
};

TEST_F(shared_workers_alone, accept_lanes_for_a_worker_that_blocks) {
  caller a;
  auto first = a.begin([&] { return sync(target_, block_until, 1); });
  // Much longer than the other worker spins.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // Two lanes, one for each worker.
  caller b;
  caller c;
  EXPECT_GT(b.call([&] { return sync(target_, thread_id); }), 0);
  c.call([&] { sync(target_, raise_gate, 1); });
  EXPECT_TRUE(first.get());
}

// ---- ends ---------------------------------------------------------------------------------------

class callers_that_end : public job_test {
 protected:
  callers_that_end() : job_test("shm:2?workers=2"), other_(job_.targets().at(1)) {}
  node other_;
};

TEST_F(callers_that_end, leave_no_lane_behind_that_was_taken_over) {
  // Threads of the first target call the second, where one handler blocks, until the first ends.
  const auto flood = [](const node& to) {
    static std::deque<std::thread> calling;
    for (int i = 0; i < 6; ++i) {
      calling.emplace_back([to, i] {
        try {
          if (i == 0) (void)sync(to, block_until, 1);
          for (;;)
            (void)sync(to, thread_id);
        } catch (const std::exception&) {
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  };
  sync(target_, flood, other_);
  EXPECT_THROW(sync(target_, [] { ::_exit(0); }), node_failed);
  std::vector<std::unique_ptr<caller>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::make_unique<caller>());
    EXPECT_GT(all.back()->call([&] { return sync(other_, thread_id); }), 0);
  }
  sync(other_, raise_gate, 1);
  for (const auto& c : all)
    EXPECT_GT(c->call([&] { return sync(other_, thread_id); }), 0);
}

TEST_F(callers_that_end, end_the_job_while_lanes_are_elsewhere) {
  caller a;
  caller b;
  caller c;
  auto first = a.begin([&] { return sync(target_, block_until, 1); });
  std::vector<future<bool>> late;
  for (caller* each : {&b, &c}) {
    late.push_back(each->call([&] { return async(target_, block_until, 1); }));
  }
  post(lane{target_}, raise_gate, 1);
  EXPECT_TRUE(first.get());
  for (auto& f : late)
    EXPECT_TRUE(f.get());
}

} // namespace
} // namespace farcall::test::shared_workers_test
