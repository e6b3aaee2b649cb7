// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/node_change.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <unistd.h>

namespace farcall::test::jobs_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- what a job is ------------------------------------------------------------------------------

TEST(jobs, have_one_target_by_default) {
  ::unsetenv("FARCALL_TARGETS");
  const job j;
  EXPECT_EQ(j.size(), 2U);
  ASSERT_EQ(j.targets().size(), 1U);
  EXPECT_EQ(j.targets()[0].id(), 1U);
  EXPECT_EQ(j.host().id(), 0U);
  EXPECT_EQ(sync(j.targets()[0], [] { return 5; }), 5);
}

TEST(jobs, number_their_nodes) {
  const job j(with_targets("shm:3"));
  EXPECT_EQ(j.size(), 4U);
  EXPECT_EQ(j.node_at(0), j.host());
  for (node_id i = 1; i <= 3; ++i) {
    EXPECT_EQ(j.node_at(i), j.targets()[i - 1]);
    EXPECT_EQ(sync(j.node_at(i), [] { return this_node().id(); }), i);
  }
  EXPECT_THAT(text_thrown_by<error>([&] { (void)j.node_at(4); }), HasSubstr("4 nodes"));
}

TEST(jobs, describe_their_nodes) {
  const job j(with_targets("shm:2?workers=2&name=solver,shm"));
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  std::set<std::uint64_t> pids;
  for (node_id i = 0; i < j.size(); ++i) {
    const node_description d = j.node_at(i).description();
    EXPECT_EQ(d.id, i);
    EXPECT_EQ(d.host, name);
    EXPECT_EQ(d.pid, static_cast<std::uint64_t>(sync(j.node_at(i), ::getpid)));
    EXPECT_FALSE(d.architecture.empty());
    EXPECT_GE(d.cores, 1U);
    EXPECT_EQ(d.workers, i == 1 || i == 2 ? 2U : 1U);
    EXPECT_EQ(d.transport, i == 0 ? "self" : "shm");
    EXPECT_FALSE(d.route.empty());
    EXPECT_TRUE(j.node_at(i).alive());
    pids.insert(d.pid);
  }
  EXPECT_EQ(pids.size(), 4U);
  EXPECT_EQ(j.host().name(), "host");
  EXPECT_EQ(j.node_at(1).name(), "solver-1");
  EXPECT_EQ(j.node_at(2).name(), "solver-2");
  EXPECT_EQ(j.node_at(3).name(), "node 3");
  // Each target returns the same, from its own view.
  const auto seen = sync(j.node_at(2), [] {
    std::vector<std::string> all;
    for (node_id i = 0; i < 4; ++i) {
      const node_description d = node_at(i).description();
      all.push_back(d.name + " " + d.transport);
    }
    return all;
  });
  EXPECT_EQ(seen,
            (std::vector<std::string>{"host shm", "solver-1 shm", "solver-2 self", "node 3 shm"}));
}

TEST(jobs, tell_how_many_nodes_there_are) {
  const job j(with_targets("shm:2"));
  EXPECT_EQ(node_count(), 3U);
  EXPECT_EQ(sync(j.targets()[1], [] { return node_count(); }), 3U);
}

TEST(jobs, pin_targets_to_processors) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  }
  const job j(with_targets("shm?cpu=" + std::to_string(last)));
  EXPECT_EQ(sync(j.targets()[0], ::sched_getcpu), last);
  EXPECT_EQ(j.targets()[0].description().cores, 1U);
  EXPECT_THAT(text_thrown_by<start_failed>([] { const job other(with_targets("shm?cpu=4000")); }),
              AllOf(HasSubstr("4000"), HasSubstr("node 1")));
}

TEST(jobs, tell_where_code_runs) {
  const job j(with_targets("shm:2"));
  EXPECT_EQ(this_node(), j.host());
  EXPECT_EQ(host(), j.host());
  EXPECT_EQ(node_at(2), j.targets()[1]);
  EXPECT_THROW((void)node_at(3), error);
  EXPECT_EQ(sync(j.targets()[1], [] { return this_node().id() * 10 + host().id(); }), 20U);
  // Also in a thread that a handler has started.
  EXPECT_EQ(sync(j.targets()[0],
                 [] {
                   node_id seen = 0;
                   std::thread([&] { seen = this_node().id(); }).join();
                   return seen;
                 }),
            1U);
}

TEST(jobs, must_exist_for_node_functions) {
  EXPECT_THAT(text_thrown_by<error>([] { (void)this_node(); }), HasSubstr("no job"));
  EXPECT_THROW((void)host(), error);
  EXPECT_THROW((void)node_at(0), error);
  EXPECT_THROW((void)node{}.description(), error);
  EXPECT_THROW((void)node{}.alive(), error);
}

TEST(jobs, that_were_moved_from_take_no_observers) {
  job from(with_targets("shm"));
  job to(std::move(from));
  // NOLINTNEXTLINE(bugprone-use-after-move): the test checks a job that was moved from
  EXPECT_THAT(text_thrown_by<error>([&] { from.on_node_change([](const node_event&) {}); }),
              HasSubstr("closed, or moved"));
  to.close();
  EXPECT_THROW(to.on_node_change([](const node_event&) {}), error);
}

TEST(jobs, can_be_moved) {
  job a(with_targets("shm"));
  const node target = a.targets()[0];
  job b(std::move(a));
  EXPECT_EQ(sync(target, [] { return 1; }), 1);
  job c(with_targets("shm:2"));
  c = std::move(b);
  EXPECT_EQ(c.size(), 2U);
  EXPECT_EQ(sync(c.targets()[0], [] { return 2; }), 2);
}

TEST(jobs, one_after_the_other) {
  for (int i = 0; i < 20; ++i) {
    const job j(with_targets("shm:2"));
    for (const node& n : j.targets())
      ASSERT_EQ(sync(n, [](int v) { return v; }, i), i);
  }
}

TEST(jobs, that_do_nothing) {
  for (int i = 0; i < 10; ++i)
    const job j(with_targets("shm"));
}

void append(const std::filesystem::path& file, char c) { std::ofstream(file, std::ios::app) << c; }

TEST(jobs, let_targets_finish_what_has_arrived) {
  const auto file = std::filesystem::path(::testing::TempDir()) /
                    ("farcall-job-test-" + std::to_string(::getpid()));
  {
    const job j(with_targets("shm:2"));
    for (int i = 0; i < 100; ++i)
      post(j.targets()[0], append, file, 'x');
  }
  EXPECT_EQ(std::filesystem::file_size(file), 100U);
  std::filesystem::remove(file);
}

TEST(jobs, end_targets_that_do_not_finish) {
  job_options options = with_targets("shm");
  options.stop_timeout = std::chrono::milliseconds(100);
  pid_t pid = 0;
  {
    const job j(options);
    pid = sync(j.targets()[0], ::getpid);
    post(j.targets()[0], [] {
      for (;;)
        std::this_thread::sleep_for(std::chrono::seconds(1));
    });
  }
  EXPECT_NE(::kill(pid, 0), 0) << "the target is still there";
}

TEST(jobs, with_futures_dropped_before) {
  job_options options = with_targets("shm");
  options.stop_timeout = std::chrono::milliseconds(100);
  const job j(options);
  for (int i = 0; i < 100; ++i) {
    (void)async(j.targets()[0], [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  }
}

TEST(jobs, let_targets_finish_behind_dropped_replies) {
  const std::string file = ::testing::TempDir() + "farcall-job-test-" + std::to_string(::getpid());
  {
    job_options options = with_targets("shm");
    options.lane_bytes = 4096;
    const job j(options);
    // Many more replies than the lane holds.
    for (int i = 0; i < 1000; ++i)
      (void)async(j.targets()[0], [] { return std::array<double, 16>{}; });
    post(j.targets()[0], [](const std::string& name) { std::ofstream(name) << "done"; }, file);
  }
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "done");
  std::filesystem::remove(file);
}

TEST(jobs, end_although_a_continuation_waits_for_another_node) {
  job_options options = with_targets("shm:2");
  options.stop_timeout = std::chrono::milliseconds(100);
  std::atomic<bool> refused{false};
  {
    const job j(options);
    const node other = j.targets()[1];
    const auto ended = async(j.targets()[0], [] {
                         std::this_thread::sleep_for(std::chrono::hours(1));
                       }).then([&refused, other](future<void>) {
      EXPECT_THROW(sync(other, [] {}), node_failed);
      refused = true;
    });
  }
  EXPECT_TRUE(refused);
}

TEST(jobs, end_although_a_target_calls_one_that_has_ended) {
  job_options options = with_targets("shm:2");
  options.stop_timeout = std::chrono::seconds(20);
  const auto begin = clock::now();
  {
    const job j(options);
    post(
        j.targets()[0],
        [](const node& other) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          sync(other, [] {});
        },
        j.targets()[1]);
  }
  EXPECT_LT(clock::now() - begin, std::chrono::seconds(10));
}

TEST(jobs, end_while_a_large_copy_is_under_way) {
  constexpr std::size_t bytes = 64U << 20;
  std::vector<char> here(bytes);
  {
    const job j(with_targets("shm"));
    const node target = j.targets()[0];
    // Outside the heap that nodes share.
    const auto address = sync(target, [] {
      static const std::vector<char> there(bytes, 'x');
      return reinterpret_cast<std::uint64_t>(there.data());
    });
    // A dropped future.
    const auto dropped = get(remote_span<const char>(target.id(), address, bytes), here);
  }
  EXPECT_EQ(std::count(here.begin(), here.end(), 'x'), static_cast<std::ptrdiff_t>(bytes));
}

TEST(jobs, are_not_made_by_targets) {
  const job j(with_targets("shm"));
  EXPECT_THAT(text_thrown_by<remote_error>(
                  [&] { sync(j.targets()[0], [] { const job inner(with_targets("shm")); }); }),
              HasSubstr("this process is node 1 of a job and cannot be the host of another"));
}

TEST(jobs, may_end_before_their_futures_and_buffers) {
  future<int> pending;
  future<std::string> ready;
  future<int> chained;
  buffer<int> memory;
  std::optional<lane> stream;
  std::optional<node> target;
  job_options options = with_targets("shm");
  options.stop_timeout = std::chrono::milliseconds(100);
  {
    const job j(options);
    target = j.targets()[0];
    ready = async(*target, [] { return std::string(1000, 'r'); });
    ready.wait();
    chained = async(*target, [] { return 1; }).then([](future<int> f) { return f.get() + 1; });
    chained.wait();
    memory = target->allocate<int>(100);
    stream.emplace(*target);
    pending = async(*target, [] {
      std::this_thread::sleep_for(std::chrono::hours(1));
      return 1;
    });
  }
  EXPECT_FALSE(target->has_job());
  EXPECT_THAT(text_thrown_by<node_failed>([&] { (void)pending.get(); }), HasSubstr("ended"));
  EXPECT_EQ(ready.get().size(), 1000U);
  EXPECT_EQ(chained.get(), 2);
  // A later job is distinct from an earlier one at its address.
  const job next(with_targets("shm"));
  auto kept = next.targets()[0].allocate<int>(100);
  memory.reset();
  stream.reset();
  EXPECT_EQ(sync(next.targets()[0], [] { return 3; }), 3);
}

// ---- several ------------------------------------------------------------------------------------

TEST(several_jobs, do_not_meet) {
  const job a(with_targets("shm:2"));
  const job b(with_targets("shm:3"));
  EXPECT_EQ(a.size(), 3U);
  EXPECT_EQ(b.size(), 4U);
  std::set<pid_t> pids;
  for (const job* j : {&a, &b}) {
    for (const node& n : j->targets())
      pids.insert(sync(n, ::getpid));
  }
  EXPECT_EQ(pids.size(), 5U);
  EXPECT_FALSE(a.targets()[0] == b.targets()[0]);
  EXPECT_FALSE(a.host() == b.host());

  // Each job knows only its own nodes.
  EXPECT_THAT(
      text_thrown_by<remote_error>([&] { (void)sync(a.targets()[0], [] { (void)node_at(3); }); }),
      HasSubstr("3 nodes"));
  sync(b.targets()[0], [] { (void)node_at(3); });
  EXPECT_THAT(text_thrown_by<error>([] { (void)this_node(); }), HasSubstr("several jobs"));

  // The host knows in a handler which of the two jobs called.
  EXPECT_EQ(sync(a.targets()[0], [] { return sync(host(), [] { return node_at(2).id(); }); }), 2U);
  EXPECT_THROW(
      (void)sync(a.targets()[0], [] { return sync(host(), [] { return node_at(3).id(); }); }),
      remote_error);
  EXPECT_EQ(sync(b.targets()[0], [] { return sync(host(), [] { return node_at(3).id(); }); }), 3U);
}

TEST(several_jobs, nodes_come_back_as_results) {
  const job a(with_targets("shm"));
  const job b(with_targets("shm"));
  EXPECT_EQ(sync(a.targets()[0], [] { return this_node(); }), a.targets()[0]);
  EXPECT_EQ(sync(b.targets()[0], [] { return this_node(); }), b.targets()[0]);
}

TEST(several_jobs, interleaved_by_threads) {
  const job a(with_targets("shm:2"));
  const job b(with_targets("shm:2"));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        const job& j = (t + i) % 2 == 0 ? a : b;
        wrong +=
            sync(
                j.targets()[static_cast<std::size_t>(i % 3 == 0)],
                [](int v) { return sync(host(), [](int w) { return w + 1; }, v); }, i) != i + 1;
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(several_jobs, end_in_any_order) {
  auto a = std::make_unique<job>(with_targets("shm"));
  auto b = std::make_unique<job>(with_targets("shm"));
  auto c = std::make_unique<job>(with_targets("shm"));
  EXPECT_EQ(sync(a->targets()[0], [] { return 1; }), 1);
  EXPECT_EQ(sync(b->targets()[0], [] { return 2; }), 2);
  a.reset();
  EXPECT_EQ(sync(b->targets()[0], [] { return 2; }), 2);
  EXPECT_EQ(sync(c->targets()[0], [] { return 3; }), 3);
  b.reset();
  auto d = std::make_unique<job>(with_targets("shm"));
  EXPECT_EQ(sync(c->targets()[0], [] { return 3; }), 3);
  EXPECT_EQ(sync(d->targets()[0], [] { return 4; }), 4);
}

TEST(several_jobs, calls_from_a_handler_of_one_to_the_other) {
  // The host's handler that serves job a calls job b.
  static std::atomic<const job*> second{nullptr};
  // For ThreadSanitizer, which does not see an order established by another process.
  static std::atomic<bool> handled{false};
  const job a(with_targets("shm"));
  const job b(with_targets("shm"));
  second = &b;
  EXPECT_EQ(sync(a.targets()[0],
                 [] {
                   return sync(host(), [] {
                     const int v = sync(second.load()->targets()[0], [] { return 21; }) * 2;
                     handled = true;
                     return v;
                   });
                 }),
            42);
  EXPECT_TRUE(handled);
}

TEST(several_jobs, memory_of_the_host_belongs_to_one) {
  const job a(with_targets("shm"));
  const job b(with_targets("shm"));
  const auto of_a = a.host().allocate<int>(4);
  const auto of_b = b.host().allocate<int>(4);
  EXPECT_EQ(map(of_a).size(), 4U);
  EXPECT_EQ(map(of_b).size(), 4U);
}

TEST(several_jobs, do_not_copy_to_each_other) {
  const job a(with_targets("shm"));
  const job b(with_targets("shm"));
  const auto of_a = a.targets()[0].allocate<int>(4);
  const auto of_b = b.targets()[0].allocate<int>(4);
  EXPECT_THAT(text_thrown_by<error>([&] { copy_sync(of_a, of_b); }), HasSubstr("different jobs"));
}

TEST(several_jobs, made_by_several_threads) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        const job j(with_targets("shm"));
        right += sync(j.targets()[0], [](int v) { return v; }, t) == t;
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(right, 12);
}

// ---- replies that nobody waits for --------------------------------------------------------------

TEST(progress_of_jobs, is_made_by_a_thread_on_request) {
  job_options options = with_targets("shm");
  options.progress = "thread";
  const job j(options);
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> ran{false};
    // Whether the thread is asleep by then or not.
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * round));
    const future<void> f =
        async(j.targets()[0], [] {}).then([&](future<void> ready) { ran = ready.valid(); });
    while (!ran)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(progress_of_jobs, is_made_when_a_program_asks_for_it) {
  job j(with_targets("shm"));
  std::atomic<bool> ran{false};
  std::thread([&] {
    (void)async(j.targets()[0], [] {}).then([&](future<void> ready) { ran = ready.valid(); });
  }).join();
  while (!ran)
    j.progress();
}

} // namespace
} // namespace farcall::test::jobs_test
