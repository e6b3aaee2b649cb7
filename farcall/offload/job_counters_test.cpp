// SPDX-License-Identifier: Apache-2.0

// job::counters(): counts of a process in a job, and how other processes read them.

#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/counter_reader.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::test::job_counters_test {
namespace {

int negated(int v) { return -v; }
void nothing() {}
int thrower(int v) { throw std::runtime_error("no " + std::to_string(v)); }
int own_process() { return ::getpid(); }

std::vector<std::filesystem::path> counter_files(int process) {
  std::vector<std::filesystem::path> files;
  const std::string folder = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;
    const std::string leads_to = std::filesystem::read_symlink(entry, gone);
    if (leads_to.starts_with(std::string("/memfd:") + counter_segment::label))
      files.push_back(entry.path());
  }
  return files;
}

/// Returns the counters of a process of this machine that has one job.
process_counters counters_of(int process) {
  const unique_fd file(::open(counter_files(process).at(0).c_str(), O_RDONLY | O_CLOEXEC));
  return counter_reader(file.get()).read();
}

/// Returns the sum over the lanes to a node.
std::uint64_t sum_of(const process_counters& c, node_id peer,
                     std::uint64_t process_counters::caller::* count) {
  std::uint64_t sum = 0;
  for (const auto& l : c.callers) {
    if (l.peer == peer) sum += l.*count;
  }
  return sum;
}

std::uint64_t served(const process_counters& c, const std::string& function) {
  std::uint64_t sum = 0;
  for (const auto& w : c.workers) {
    for (std::size_t key = 0; key < w.handlers.size(); ++key) {
      if (key < am::first_user_key || key - am::first_user_key >= c.functions.size()) continue;
      if (demangle(c.functions[key - am::first_user_key].c_str()).find(function) !=
          std::string::npos) {
        sum += w.handlers[key];
      }
    }
  }
  return sum;
}

class counters : public two_targets_test {
 protected:
  std::uint64_t count(std::uint64_t process_counters::caller::* which) const {
    return sum_of(job_.counters(), target_.id(), which);
  }
  [[nodiscard]] process_counters at_target() const {
    return counters_of(static_cast<int>(target_.description().pid));
  }
};

TEST_F(counters, distinguish_calls_from_posts) {
  using caller = process_counters::caller;
  (void)sync(target_, fn<negated>, 1);
  const process_counters before = job_.counters();
  for (int i = 0; i < 100; ++i)
    (void)sync(target_, fn<negated>, i);
  for (int i = 0; i < 30; ++i)
    post(target_, fn<nothing>);
  // Bytes are counted when replies are taken together.
  auto one = async(target_, fn<negated>, 1);
  (void)async(target_, fn<negated>, 2).get();
  (void)one.get();
  const process_counters after = job_.counters();
  const auto grown = [&](std::uint64_t caller::* which) {
    return sum_of(after, target_.id(), which) - sum_of(before, target_.id(), which);
  };
  EXPECT_EQ(grown(&caller::calls), 102U);
  EXPECT_EQ(grown(&caller::answers), 102U);
  EXPECT_EQ(grown(&caller::posts), 30U);
  EXPECT_EQ(grown(&caller::failures), 0U);
  EXPECT_EQ(sum_of(after, other_.id(), &caller::calls), 0U);
  // A request has 16 bytes and its arguments, a reply eight and its result, rounded to 16.
  EXPECT_GE(sum_of(after, target_.id(), &caller::bytes_out), 100U * 32);
  EXPECT_GE(sum_of(after, target_.id(), &caller::bytes_in), 100U * 16);
}

TEST_F(counters, count_requests_that_a_target_has_served) {
  for (int i = 0; i < 40; ++i)
    (void)sync(target_, fn<negated>, i);
  for (int i = 0; i < 5; ++i)
    post(target_, fn<nothing>);
  (void)sync(target_, fn<own_process>);
  // A handler is counted once it has replied.
  EXPECT_TRUE(eventually([&] { return served(at_target(), "own_process") == 1; }));
  const process_counters there = at_target();
  EXPECT_EQ(there.process, static_cast<std::int64_t>(target_.description().pid));
  EXPECT_EQ(there.host_process, ::getpid());
  EXPECT_EQ(there.node, target_.id());
  EXPECT_EQ(served(there, "negated"), 40U);
  EXPECT_EQ(served(there, "nothing"), 5U);
  EXPECT_EQ(served(there, "own_process"), 1U);
  std::uint64_t bytes = 0;
  for (const auto& s : there.servers)
    bytes += s.bytes_in;
  // A request has 16 bytes at least; requests of the last iteration may not be counted yet.
  EXPECT_GE(bytes, 40U * 16);
}

TEST_F(counters, tell_calls_that_fail) {
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW((void)sync(target_, fn<thrower>, i), remote_error);
  EXPECT_EQ(count(&process_counters::caller::failures), 3U);
  EXPECT_EQ(count(&process_counters::caller::calls), count(&process_counters::caller::answers));
}

TEST_F(counters, tell_calls_whose_node_has_ended) {
  std::vector<future<int>> waiting;
  {
    const stopped_target stopped(target_);
    for (int i = 0; i < 4; ++i)
      waiting.push_back(async(target_, fn<negated>, i));
    ::kill(static_cast<pid_t>(target_.description().pid), SIGKILL);
    for (auto& f : waiting)
      EXPECT_THROW((void)f.get(), node_failed);
  }
  EXPECT_GE(count(&process_counters::caller::failures), 4U);
  EXPECT_EQ(count(&process_counters::caller::calls), count(&process_counters::caller::answers));
}

TEST_F(counters, know_the_most_calls_under_way) {
  std::vector<future<int>> waiting;
  for (int i = 0; i < 20; ++i)
    waiting.push_back(async(target_, fn<negated>, i));
  for (auto& f : waiting)
    (void)f.get();
  // Some replies may have been sent, but not taken, before the last call was sent.
  EXPECT_EQ(count(&process_counters::caller::most_in_flight), 20U);
}

TEST_F(counters, measure_some_calls) {
  constexpr int calls = 5000;
  for (int i = 0; i < calls; ++i)
    (void)sync(target_, fn<negated>, i);
  std::uint64_t measured = 0;
  for (const auto& l : job_.counters().callers) {
    measured +=
        std::accumulate(l.latency.buckets.begin(), l.latency.buckets.end(), std::uint64_t{0});
  }
  EXPECT_GT(measured, 1U);
  EXPECT_LT(measured, 5000U);
}

TEST_F(counters, go_on_where_threads_come_and_go) {
  for (int t = 0; t < 5; ++t) {
    std::thread([&] {
      for (int i = 0; i < 10; ++i)
        (void)sync(target_, fn<negated>, i);
    }).join();
  }
  EXPECT_EQ(count(&process_counters::caller::calls), 50U);
}

TEST_F(counters, sum_the_calls_of_all_threads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        (void)sync(target_, fn<negated>, i);
    });
  }
  // Reads meanwhile, which disturbs no thread.
  for (int i = 0; i < 100; ++i) {
    const process_counters now = job_.counters();
    EXPECT_LE(sum_of(now, target_.id(), &process_counters::caller::calls), 2000U);
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(count(&process_counters::caller::calls), 2000U);
}

TEST_F(counters, distinguish_kinds_of_copies) {
  const auto sums = [&] {
    process_counters::thread all;
    for (const auto& t : job_.counters().threads) {
      all.puts += t.puts;
      all.gets += t.gets;
      all.copies += t.copies;
      all.bytes_put += t.bytes_put;
      all.bytes_got += t.bytes_got;
      all.bytes_copied += t.bytes_copied;
    }
    return all;
  };
  const auto there = target_.allocate<char>(100'000);
  const auto elsewhere = other_.allocate<char>(100'000);
  std::vector<char> here(100'000);
  const process_counters::thread before = sums();
  // The second copy uses the route that the first has found.
  put(std::span<const char>(here).first(100), there.span()).get();
  put(std::span<const char>(here).first(100), there.span()).get();
  get(there.span(), std::span(here)).get();
  copy(there, elsewhere).get();
  const process_counters::thread after = sums();
  EXPECT_EQ(after.puts - before.puts, 2U);
  EXPECT_EQ(after.bytes_put - before.bytes_put, 200U);
  EXPECT_EQ(after.gets - before.gets, 1U);
  EXPECT_EQ(after.bytes_got - before.bytes_got, 100'000U);
  EXPECT_EQ(after.copies - before.copies, 1U);
  EXPECT_EQ(after.bytes_copied - before.bytes_copied, 100'000U);
}

TEST_F(counters, know_how_each_node_is_reached) {
  (void)sync(target_, fn<ask_number_of>, other_.id());
  const process_counters here = job_.counters();
  ASSERT_EQ(here.peers.size(), 3U);
  const auto at = std::find_if(here.peers.begin(), here.peers.end(),
                               [&](const auto& p) { return p.node == target_.id(); });
  ASSERT_NE(at, here.peers.end());
  EXPECT_EQ(at->process, static_cast<std::int64_t>(target_.description().pid));
  EXPECT_EQ(at->route, target_.description().transport);
  EXPECT_EQ(at->machine, target_.description().host);
  EXPECT_EQ(sum_of(at_target(), other_.id(), &process_counters::caller::calls), 1U);
}

void wait_for_word(handshake::words shared) {
  const auto here = map(shared);
  if (!handshake::wait(here, 0, 1)) throw std::runtime_error("nobody went on");
}

TEST(full_lanes, are_counted) {
  job_options options = with_targets("shm");
  options.lane_bytes = min_ring;
  const job owner(options);
  const node target = owner.targets().front();
  const auto full = [&] { return sum_of(owner.counters(), 1, &process_counters::caller::full); };
  handshake shake(target);
  const std::uint64_t before = full();
  post(target, fn<wait_for_word>, shake.span());
  std::thread goes_on([&] {
    EXPECT_TRUE(eventually([&] { return full() > before; }));
    shake.set(0);
  });
  // More calls than the ring holds, behind the call that waits.
  for (int i = 0; i < 1000; ++i)
    post(target, fn<nothing>);
  goes_on.join();
  EXPECT_GT(full(), before);
}

TEST(counters_of_a_job, end_with_it) {
  // Other tests leave jobs whose handlers do not return.
  const std::size_t before = counter_files(::getpid()).size();
  {
    const job owner(with_targets("shm"));
    EXPECT_EQ(counter_files(::getpid()).size(), before + 1);
  }
  EXPECT_EQ(counter_files(::getpid()).size(), before);
}

} // namespace
} // namespace farcall::test::job_counters_test
