// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/types.h>

namespace farcall::test {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t target_count = 300;

/// Returns a value of /proc/self/status, in KiB. `name` includes the colon.
std::uint64_t kib_of_status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::uint64_t kib = 0;
    if (word == name && file >> kib) return kib;
  }
  return 0;
}

/// Returns the process's proportional set size (PSS), in KiB.
std::uint64_t own_kib(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    std::uint64_t kib = 0;
    if (word == "Pss:" && file >> kib) return kib;
  }
  return 0;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class targets : public job_test {
 protected:
  targets() : job_test("shm:" + std::to_string(target_count)) {}
};

TEST_F(targets, are_called_one_and_all) {
  ASSERT_EQ(job_.targets().size(), target_count);
  std::vector<future<node_id>> numbers;
  for (const node& n : job_.targets())
    numbers.push_back(async(n, fn<&own_number>));
  for (std::size_t i = 0; i < target_count; ++i)
    ASSERT_EQ(numbers[i].get(), i + 1);
}

TEST_F(targets, call_each_other) {
  std::vector<future<node_id>> numbers;
  for (const node& n : job_.targets())
    numbers.push_back(
        async(n, fn<&ask_number_of>, static_cast<node_id>(n.id() % target_count + 1)));
  for (std::size_t i = 0; i < target_count; ++i)
    ASSERT_EQ(numbers[i].get(), (i + 1) % target_count + 1);
  // One target opens lanes to many others.
  const auto ask_many = [](node_id last) {
    node_id sum = 0;
    for (node_id other = 2; other <= last; ++other)
      sum += ask_number_of(other);
    return sum;
  };
  EXPECT_EQ(sync(target_, ask_many, 100U), 100U * 101 / 2 - 1);
}

TEST_F(targets, have_a_lane_each_to_the_host) {
  const auto ask_host = [] { return sync(node_at(0), fn<&own_number>); };
  std::vector<future<node_id>> numbers;
  for (const node& n : job_.targets())
    numbers.push_back(async(n, ask_host));
  for (future<node_id>& f : numbers)
    ASSERT_EQ(f.get(), 0U);
}

TEST_F(targets, take_little_memory_each) {
  constexpr std::uint64_t max_kib = 8 << 10;
  std::uint64_t sum = 0;
  for (const node& n : job_.targets()) {
    ASSERT_EQ(sync(n, fn<&own_number>), n.id());
    sum += own_kib(pid_of(n));
  }
  EXPECT_GT(sum, 0U);
  EXPECT_LT(sum / target_count, max_kib);
}

TEST_F(targets, may_die_without_harm_to_others) {
  const node victim = job_.targets().at(149);
  const node knows = job_.targets().at(150);
  const node does_not = job_.targets().at(151);
  EXPECT_EQ(sync(knows, fn<&ask_number_of>, victim.id()), victim.id());
  ::kill(pid_of(victim), SIGKILL);
  ASSERT_TRUE(eventually([&] { return !victim.alive(); }));
  const auto failure = [](node_id other) {
    try {
      (void)ask_number_of(other);
    } catch (const node_failed& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(sync(knows, failure, victim.id()), HasSubstr("node 150"));
  EXPECT_THAT(sync(does_not, failure, victim.id()), HasSubstr("node 150"));
  for (const node& n : job_.targets()) {
    if (n == victim) continue;
    ASSERT_EQ(sync(n, fn<&own_number>), n.id());
  }
}

TEST(targets_of_a_job, come_and_go_without_a_trace) {
  constexpr node_id last = 1030;
  // Least sizes of a target's heap and of its receive segment.
  constexpr std::uint64_t heap = std::uint64_t{64} << 20;
  job j(with_targets("shm"));
  std::size_t descriptors = 0;
  std::uint64_t mapped = 0;
  std::uint64_t shared = 0;
  for (node_id expected = 2; expected <= last; ++expected) {
    const node added = j.add("shm");
    ASSERT_EQ(added.id(), expected);
    ASSERT_EQ(sync(added, fn<&own_number>), expected);
    const buffer<char> memory = added.allocate<char>(std::size_t{64} << 10);
    put_sync(std::vector<char>(memory.size(), 'x'), memory);
    j.remove(added);
    if (expected != 20) continue;
    descriptors = open_descriptors();
    mapped = kib_of_status("VmSize:");
    shared = kib_of_status("RssShmem:");
  }
  EXPECT_LE(open_descriptors(), descriptors);
  EXPECT_EQ(sync(j.targets().front(), fn<&own_number>), 1U);
  EXPECT_EQ(j.size(), last + 1U);
  // A removed target leaves addresses of its receive segment, without pages, and none of its heap.
  EXPECT_LT((kib_of_status("VmSize:") - mapped) * 1024, last * heap);
  EXPECT_LT(kib_of_status("RssShmem:"), shared + last * 8);
}

TEST(targets_of_a_job, have_ended_with_it) {
  std::vector<pid_t> pids;
  {
    const job j(with_targets("shm:" + std::to_string(target_count)));
    for (const node& n : j.targets())
      pids.push_back(pid_of(n));
  }
  for (const pid_t pid : pids)
    EXPECT_NE(::kill(pid, 0), 0) << pid;
}

} // namespace
} // namespace farcall::test
