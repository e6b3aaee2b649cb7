// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"
#include "tests/sanitizer.hpp"

#include <farcall/async/stop_token.hpp>
#include <farcall/copy/in_order.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <thread>

/// Tests a job's functions with nodes started by servers, and with mixed jobs.
namespace farcall::test {
namespace {

using testing::HasSubstr;

/// Targets of a job. T and U stand for the URLs of two servers.
struct layout {
  const char* name;
  const char* targets;
  bool has_key;
  bool is_at_path = false; ///< the first server listens at a Unix socket
};

void PrintTo(const layout& l, std::ostream* out) { *out << l.targets; }

std::string targets_of(std::string pattern, const server& first, const server& second) {
  std::string text;
  for (const char c : pattern) {
    if (c == 'T') {
      text += url_of(first);
    } else if (c == 'U') {
      text += url_of(second);
    } else {
      text += c;
    }
  }
  return text;
}

class network_job_test : public testing::TestWithParam<layout> {
 protected:
  network_job_test() {
    key_ = folder_.make_key(GetParam().has_key);
    server_options first = local_server(key_);
    if (GetParam().is_at_path) first.listen = {folder_.file("socket")};
    server_.emplace(std::move(first));
    other_server_.emplace(local_server(key_));
    job_.emplace(network_job(targets_of(GetParam().targets, *server_, *other_server_), key_));
    first_ = job_->targets().at(0);
    second_ = job_->targets().at(1);
  }

  scratch_folder folder_;
  std::string key_;
  std::optional<server> server_;
  std::optional<server> other_server_;
  std::optional<job> job_;
  node first_;
  node second_;
};

std::string name_of(const testing::TestParamInfo<layout>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    all, network_job_test,
    testing::Values(layout{"plain", "T?count=2", false}, layout{"key", "T?count=2", true},
                    layout{"two_servers", "T,U", true}, layout{"tcp_and_shm", "T,shm", true},
                    layout{"shm_and_tcp", "shm,T", false}, layout{"unix", "T?count=2", false, true},
                    layout{"unix_and_tcp", "T,U", true, true}),
    name_of);

std::uint64_t mixed(std::uint64_t v) { return (v ^ (v >> 29)) * 0xbf58476d1ce4e5b9U; }

TEST_P(network_job_test, calls_give_their_results) {
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(sync(first_, mixed, i), mixed(i));
    ASSERT_EQ(sync(second_, mixed, i), mixed(i));
  }
  std::vector<future<std::uint64_t>> all;
  for (std::uint64_t i = 0; i < 2000; ++i)
    all.push_back(async(i % 2 == 0 ? first_ : second_, mixed, i));
  for (std::uint64_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all[i].get(), mixed(i));
}

TEST_P(network_job_test, nodes_are_processes_and_describe_their_route) {
  const auto pid = sync(first_, ::getpid);
  EXPECT_NE(pid, ::getpid());
  EXPECT_NE(pid, sync(second_, ::getpid));
  for (const node& n : job_->targets()) {
    const node_description d = n.description();
    EXPECT_EQ(d.pid, static_cast<std::uint64_t>(sync(n, ::getpid)));
    if (d.transport == "tcp") {
      EXPECT_THAT(d.route, HasSubstr(GetParam().has_key ? "encrypted" : "unencrypted"));
    }
  }
  const bool has_tcp =
      first_.description().transport == "tcp" || second_.description().transport == "tcp";
  EXPECT_TRUE(has_tcp);
}

// Atomic: a reply of another process orders the accesses, which a sanitizer cannot see.
std::atomic<int> counted_here{0};

// ---- stops ----

std::atomic<int> begun_there{0};
std::atomic<int> told_there{0};
std::atomic<int> ran_there{0};

void run_until_stopped() {
  const call_stop_token token = stop_token_of_call();
  // Posted: if it waited for a reply, its worker would begin calls that the test stops.
  post(host(), [] { ++begun_there; });
  if (comes_true([&] { return token.stop_requested(); })) sync(host(), [] { ++told_there; });
}

void reset_counts() {
  begun_there = 0;
  told_there = 0;
  ran_there = 0;
}

TEST_P(network_job_test, stops_reach_calls_that_have_begun_and_others) {
  reset_counts();
  std::stop_source busy;
  std::stop_source others;
  future<void> first = async(first_.with(busy.get_token()), run_until_stopped);
  ASSERT_TRUE(comes_true([] { return begun_there == 1; }));
  std::vector<future<void>> waiting;
  for (int i = 0; i < 100; ++i) {
    waiting.push_back(async(
        first_.with(others.get_token()),
        [](const std::string& /*text*/) { sync(host(), [] { ++ran_there; }); },
        std::string(i % 10 == 0 ? 200'000 : 10, 'x')));
  }
  others.request_stop();
  for (auto& each : waiting)
    EXPECT_THROW(each.get(), cancelled);
  busy.request_stop();
  EXPECT_THROW(first.get(), cancelled);
  EXPECT_TRUE(comes_true([] { return told_there == 1; }));
  EXPECT_EQ(sync(first_, mixed, std::uint64_t{1}), mixed(1)) << "behind the others";
  EXPECT_EQ(ran_there, 0);
}

TEST_P(network_job_test, stops_race_with_replies) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::stop_source source;
    future<std::uint64_t> f =
        async((i % 2 == 0 ? first_ : second_).with(source.get_token()), mixed, i);
    if (i % 3 == 0) (void)f.wait_for(std::chrono::microseconds(i % 200));
    source.request_stop();
    try {
      ASSERT_EQ(f.get(), mixed(i));
    } catch (const cancelled&) { // NOLINT(bugprone-empty-catch): either may come first
    }
    ASSERT_EQ(sync(i % 2 == 0 ? first_ : second_, mixed, i), mixed(i));
  }
}

TEST_P(network_job_test, stops_are_handed_on) {
  reset_counts();
  std::stop_source source;
  future<void> f = async(
      first_.with(source.get_token()),
      [](const node& further) { sync(further.with(stop_token_of_call()), run_until_stopped); },
      second_);
  ASSERT_TRUE(comes_true([] { return begun_there == 1; }));
  source.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  EXPECT_TRUE(comes_true([] { return told_there == 1; }));
}

TEST_P(network_job_test, calls_of_a_target_that_dies_are_told) {
  reset_counts();
  future<void> f = async(
      first_,
      [](const node& further) {
        const std::stop_source nobody_stops;
        sync(further.with(nobody_stops.get_token()), run_until_stopped);
      },
      second_);
  ASSERT_TRUE(comes_true([] { return begun_there == 1; }));
  ::kill(static_cast<pid_t>(first_.description().pid), SIGKILL);
  EXPECT_THROW(f.get(), node_failed);
  EXPECT_TRUE(comes_true([] { return told_there == 1; }));
}

TEST_P(network_job_test, targets_call_the_host) {
  counted_here = 0;
  for (const node& n : job_->targets()) {
    const int sum = sync(n, [] {
      int all = 0;
      for (int i = 0; i < 200; ++i)
        all += sync(host(), [](int v) { return ++counted_here, v; }, i);
      return all;
    });
    EXPECT_EQ(sum, 199 * 200 / 2);
  }
  EXPECT_EQ(counted_here, 400);
}

TEST_P(network_job_test, targets_call_each_other_both_ways) {
  const auto call_there = [](const node& there) {
    const std::uint64_t pid = static_cast<std::uint64_t>(sync(there, ::getpid));
    for (std::uint64_t i = 0; i < 500; ++i) {
      if (sync(there, mixed, i) != mixed(i)) return std::uint64_t{0};
    }
    return pid;
  };
  auto there = async(first_, call_there, second_);
  auto back = async(second_, call_there, first_);
  EXPECT_EQ(there.get(), second_.description().pid);
  EXPECT_EQ(back.get(), first_.description().pid);
}

int down(int depth, const node& there, const node& back) {
  return depth == 0 ? 0 : 1 + sync(there, down, depth - 1, back, there);
}

TEST_P(network_job_test, calls_nest_200_deep_between_host_and_target) {
  EXPECT_EQ(sync(first_, down, 200, job_->host(), first_), 200);
  EXPECT_EQ(sync(second_, down, 200, job_->host(), second_), 200);
}

TEST_P(network_job_test, calls_nest_200_deep_between_targets) {
  EXPECT_EQ(sync(first_, down, 200, second_, first_), 200);
}

std::vector<std::uint8_t> pattern(std::size_t bytes, std::size_t seed) {
  std::vector<std::uint8_t> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::uint8_t>(mixed(i / 7 + seed) >> 32);
  return made;
}

std::vector<std::uint8_t> reversed(std::vector<std::uint8_t> v) {
  std::reverse(v.begin(), v.end());
  return v;
}

/// Many times a ring's size, and not a multiple of any size. ThreadSanitizer is slow with bytes
/// that other processes have changed (tests/tsan_suppressions.txt).
constexpr std::size_t largest = test::under_sanitizer ? 600'003 : (std::size_t{20} << 20) + 3;

constexpr std::size_t sizes[] = {
    1,      7,      64,     4095,    16'384,
    16'385, 65'536, 70'001, 300'000, test::under_sanitizer ? 262'144 : 1'048'576,
    largest};

void overwrite(remote_span<std::uint8_t> memory, std::uint8_t with) {
  std::fill(memory.begin(), memory.end(), with);
}

bool is_pattern(remote_span<const std::uint8_t> memory, std::size_t seed) {
  return std::ranges::equal(memory.local(), pattern(memory.size(), seed));
}

TEST_P(network_job_test, ordered_copies_and_calls_wait_for_each_other) {
  for (const std::size_t n : sizes) {
    const buffer<std::uint8_t> there = first_.allocate<std::uint8_t>(n);
    const buffer<std::uint8_t> elsewhere = second_.allocate<std::uint8_t>(n);
    const auto sent = pattern(n, n);
    future<void> put_done = put(sent, in_order(there));
    future<bool> seen = async(in_order(first_), is_pattern, there.span(), n);
    future<void> copied = copy(in_order(there), in_order(elsewhere));
    post(in_order(first_), overwrite, there.span(), std::uint8_t{1});
    std::vector<std::uint8_t> got(n);
    future<void> get_done = get(in_order(there), got);
    future<void> overwritten = async(in_order(first_), overwrite, there.span(), std::uint8_t{2});
    EXPECT_TRUE(sync(in_order(second_), is_pattern, elsewhere.span(), n)) << n;
    get_done.get();
    EXPECT_EQ(got, std::vector<std::uint8_t>(n, 1)) << n;
    EXPECT_TRUE(seen.get()) << n;
    put_done.get();
    copied.get();
    overwritten.get();
  }
}

TEST_P(network_job_test, arguments_and_results_of_any_size_arrive_whole) {
  for (const std::size_t bytes : sizes) {
    const auto sent = pattern(bytes, bytes);
    for (const node& n : job_->targets())
      ASSERT_TRUE(sync(n, reversed, sent) == reversed(sent)) << bytes << " bytes";
  }
}

TEST_P(network_job_test, large_arguments_go_between_targets_and_to_the_host) {
  const auto ask = [](const node& there, std::size_t bytes) {
    const auto sent = pattern(bytes, 3);
    return sync(there, reversed, sent) == reversed(sent);
  };
  for (const std::size_t bytes : {std::size_t{100'000}, largest}) {
    EXPECT_TRUE(sync(first_, ask, second_, bytes));
    EXPECT_TRUE(sync(second_, ask, first_, bytes));
    EXPECT_TRUE(sync(first_, ask, job_->host(), bytes));
    EXPECT_TRUE(sync(second_, ask, job_->host(), bytes));
  }
}

TEST_P(network_job_test, buffers_are_put_and_got) {
  for (const std::size_t bytes : sizes) {
    for (const node& n : job_->targets()) {
      const auto sent = pattern(bytes, bytes + 1);
      const auto there = n.allocate<std::uint8_t>(bytes);
      put(sent, there).get();
      std::vector<std::uint8_t> got(bytes);
      get(there, got).get();
      ASSERT_TRUE(got == sent) << bytes << " bytes";
    }
  }
}

TEST_P(network_job_test, buffers_are_copied_between_targets_both_ways) {
  for (const std::size_t bytes : sizes) {
    const auto sent = pattern(bytes, bytes + 2);
    const auto a = first_.allocate<std::uint8_t>(bytes);
    const auto b = second_.allocate<std::uint8_t>(bytes);
    const auto c = first_.allocate<std::uint8_t>(bytes);
    put(sent, a).get();
    copy(a, b).get();
    copy(b, c).get();
    std::vector<std::uint8_t> got(bytes);
    get(c, got).get();
    ASSERT_TRUE(got == sent) << bytes << " bytes";
  }
}

TEST_P(network_job_test, many_copies_at_once_do_not_mix) {
  constexpr std::size_t bytes = 200'000;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (std::size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const node& n = t % 2 == 0 ? first_ : second_;
      const auto there = n.allocate<std::uint8_t>(bytes);
      for (std::size_t i = 0; i < 20; ++i) {
        const auto sent = pattern(bytes, t * 1000 + i);
        put(sent, there).get();
        std::vector<std::uint8_t> got(bytes);
        get(there, got).get();
        if (got == sent) ++right;
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(right, 120);
}

TEST_P(network_job_test, exceptions_come_back) {
  for (const node& n : job_->targets()) {
    const auto e =
        thrown_by<remote_error>([&] { sync(n, [] { throw std::out_of_range("far out"); }); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->type_name(), "std::out_of_range");
    EXPECT_THAT(e->what(), HasSubstr("far out"));
  }
  // Through another target.
  const auto e = thrown_by<remote_error>([&] {
    sync(
        first_, [](const node& there) { sync(there, [] { throw std::out_of_range("further"); }); },
        second_);
  });
  ASSERT_TRUE(e);
  EXPECT_THAT(e->what(), HasSubstr("further"));
}

TEST_P(network_job_test, posted_calls_run_before_the_job_ends) {
  const std::string file = folder_.file("posts");
  for (int i = 0; i < 1000; ++i)
    post(i % 2 == 0 ? first_ : second_, mark, file);
  job_.reset();
  EXPECT_EQ(marks(file), 1000U);
}

TEST_P(network_job_test, threads_of_the_host_call_at_the_same_time) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (std::uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 300; ++i) {
        if (sync(i % 2 == 0 ? first_ : second_, mixed, t * 1000 + i) == mixed(t * 1000 + i))
          ++right;
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(right, 1800);
}

TEST_P(network_job_test, a_lane_has_a_worker_of_its_own) {
  const lane a(first_);
  const lane b(first_);
  // Each handler waits until the other has begun.
  const std::string file = folder_.file("lanes");
  const auto meet = [](const std::string& path) {
    mark(path);
    return comes_true([&] { return marks(path) >= 2; });
  };
  future<bool> one = async(a, meet, file);
  future<bool> two = async(b, meet, file);
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(two.get());
  for (std::uint64_t i = 0; i < 500; ++i)
    ASSERT_EQ(sync(a, mixed, i), mixed(i));
}

TEST_P(network_job_test, lanes_come_and_go) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    const lane l(i % 2 == 0 ? first_ : second_);
    ASSERT_EQ(sync(l, mixed, i), mixed(i));
  }
  EXPECT_EQ(sync(first_, mixed, 1U), mixed(1));
}

TEST_P(network_job_test, a_deadline_ends_the_wait_and_nothing_else) {
  for (const node& n : job_->targets()) {
    EXPECT_THROW(sync(n.within(std::chrono::milliseconds(30)), [] { ::usleep(300'000); }), timeout);
    EXPECT_TRUE(n.alive());
    EXPECT_EQ(sync(n, mixed, 5U), mixed(5));
  }
}

TEST_P(network_job_test, targets_end_with_the_job) {
  std::vector<pid_t> pids;
  for (const node& n : job_->targets())
    pids.push_back(sync(n, ::getpid));
  job_.reset();
  EXPECT_TRUE(all_end_within(pids, std::chrono::seconds(10)));
  EXPECT_TRUE(comes_true([&] { return server_->targets() + other_server_->targets() == 0; }));
}

// ---- jobs of other shapes -----------------------------------------------------------------------

TEST(network_jobs, three_workers_serve_three_callers_at_a_time) {
  const scratch_folder folder;
  const server s(local_server());
  const job j(network_job(url_of(s) + "?workers=3"));
  const node target = j.targets().front();
  EXPECT_EQ(target.description().workers, 3U);
  std::vector<std::thread> threads;
  std::atomic<int> met{0};
  const std::string file = folder.file("met");
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const auto meet = [](const std::string& path) {
        mark(path);
        return comes_true([&] { return marks(path) >= 3; });
      };
      if (sync(target, meet, file)) ++met;
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(met, 3);
}

TEST(network_jobs, work_at_an_address_of_ipv6) {
  std::optional<server> s;
  server_options options = local_server();
  options.listen.host = "::1";
  try {
    s.emplace(options);
  } catch (const error& e) {
    GTEST_SKIP() << "this machine has no IPv6: " << e.what();
  }
  const job j(network_job("tcp://[::1]:" + std::to_string(port_of(*s)) + "?count=2"));
  const node& first = j.targets().at(0);
  const node& second = j.targets().at(1);
  const auto ask = [](const node& n) { return sync(n, ::getpid); };
  EXPECT_EQ(sync(first, ask, second), sync(second, ::getpid));
  EXPECT_EQ(sync(second, ask, j.host()), ::getpid());
  const std::vector<int> sent(100'000, 7);
  std::vector<int> got(sent.size());
  const auto there = first.allocate<int>(sent.size());
  const auto copied = second.allocate<int>(sent.size());
  put(sent, there).get();
  copy(there, copied).get();
  get(copied, got).get();
  EXPECT_EQ(got, sent);
}

TEST(network_jobs, a_copy_makes_no_unused_connection) {
  const captured_log log;
  const server s(local_server());
  job_options o = network_job(url_of(s));
  o.heartbeat_timeout = std::chrono::milliseconds(300);
  const job j(o);
  const auto there = j.targets()[0].allocate<int>(100'000);
  put(std::vector<int>(100'000, 7), there).get();
  // A silent connection is closed, with a warning, after the heartbeat timeout.
  EXPECT_FALSE(comes_true([&] { return !log.text().empty(); }, std::chrono::milliseconds(900)))
      << log.text();
  put(std::vector<int>(100'000, 8), there).get();
}

TEST(network_jobs, several_use_one_server_at_a_time) {
  const scratch_folder folder;
  const std::string key = folder.file("key");
  tcp::write_key_file(key);
  const server s(local_server(key));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const job j(network_job(url_of(s) + "?count=2", key));
      for (std::uint64_t i = 0; i < 200; ++i) {
        const auto ask = [](const node& there, std::uint64_t v) { return sync(there, mixed, v); };
        if (sync(j.targets()[i % 2], ask, j.targets()[1 - i % 2], t * i) == mixed(t * i)) ++right;
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(right, 800);
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

TEST(network_jobs, sixteen_nodes_all_call_each_other) {
  const scratch_folder folder;
  const std::string key = folder.file("key");
  tcp::write_key_file(key);
  const server s(local_server(key));
  job_options o = network_job(url_of(s) + "?count=12,shm:4", key);
  o.start_timeout = std::chrono::seconds(60);
  o.stop_timeout = std::chrono::seconds(20);
  const job j(o);
  ASSERT_EQ(j.targets().size(), 16U);
  std::vector<future<int>> sums;
  for (const node& n : j.targets()) {
    sums.push_back(async(n, [] {
      int sum = 0;
      for (node_id id = 0; id < node_count(); ++id)
        sum += sync(node_at(id), [](int v) { return v; }, static_cast<int>(id));
      return sum;
    }));
  }
  for (auto& f : sums)
    EXPECT_EQ(f.get(), 136);
}

TEST(network_jobs, many_one_after_the_other_leave_nothing_behind) {
  const scratch_folder folder;
  const std::string key = folder.file("key");
  tcp::write_key_file(key);
  const server s(local_server(key));
  const auto one = [&] {
    const job j(network_job(url_of(s) + "?count=2,shm", key));
    for (const node& n : j.targets())
      EXPECT_EQ(sync(n, mixed, 1U), mixed(1));
    EXPECT_EQ(sync(
                  j.targets()[0], [](const node& n) { return sync(n, mixed, 2U); }, j.targets()[1]),
              mixed(2));
    const auto there = j.targets()[0].allocate<int>(100'000);
    put(std::vector<int>(100'000, 7), there).get();
  };
  one();
  const auto settled = [&] { return s.targets() == 0; };
  EXPECT_TRUE(comes_true(settled));
  const holdings before = settled_holdings();
  for (int i = 0; i < (test::under_sanitizer ? 10 : 50); ++i)
    one();
  EXPECT_TRUE(comes_true(settled));
  EXPECT_TRUE(nothing_left_since(before));
}

} // namespace
} // namespace farcall::test
