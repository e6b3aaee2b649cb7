// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/copy/mapped.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <sys/types.h>

namespace farcall::test::mapped_test {
namespace {

using ::testing::HasSubstr;

/// Returns how many heaps of nodes this process maps, by the names of the memory files.
std::size_t mapped_heaps() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> names;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t name = line.find("/memfd:farcall-");
    if (name != std::string::npos && line.find("-heap", name) != std::string::npos)
      names.insert(line.substr(name));
  }
  return names.size();
}

void fill(remote_span<int> memory, int value) { std::fill(memory.begin(), memory.end(), value); }

void expect_usable(const mapped<int>& memory) {
  memory[0] = 7;
  memory[memory.size() - 1] = 8;
  EXPECT_EQ(memory[0], 7);
  EXPECT_EQ(memory.span().back(), 8);
}

TEST(mapped, shows_the_memory_of_its_node) {
  const job j;
  const node target = j.targets().front();
  const buffer<int> memory = target.allocate<int>(1000);
  const mapped here(memory);
  EXPECT_EQ(here.size(), 1000U);
  EXPECT_EQ(here.data(), map(memory).data());
  sync(target, fill, memory.span(), 5);
  EXPECT_EQ(std::ranges::count(here.span(), 5), 1000);
  const remote_span<const int> view = memory.subspan(10, 2);
  const mapped<const int> part(view);
  EXPECT_EQ(part.data(), here.data() + 10);
}

TEST(mapped, outlives_its_job) {
  ASSERT_EQ(mapped_heaps(), 0U);
  {
    mapped<int> there;
    mapped<int> own;
    {
      const job j(with_targets("shm:2"));
      const node target = j.targets().front();
      const buffer<int> memory = target.allocate<int>(1000);
      const buffer<int> here = j.host().allocate<int>(1000);
      there = mapped(memory);
      own = mapped(here);
      sync(target, fill, memory.span(), 5);
      own[999] = 6;
    }
    EXPECT_EQ(mapped_heaps(), 2U) << "the heap of the other target is not needed";
    EXPECT_EQ(there[999], 5);
    EXPECT_EQ(own[999], 6);
    expect_usable(there);
    expect_usable(own);
  }
  EXPECT_EQ(mapped_heaps(), 0U);
}

TEST(mapped, outlives_its_node) {
  job j(with_targets("shm:2"));
  std::optional<mapped<int>> failed;
  std::optional<mapped<int>> removed;
  {
    const buffer<int> first = j.targets()[0].allocate<int>(100'000);
    const buffer<int> second = j.targets()[1].allocate<int>(100'000);
    failed.emplace(first);
    removed.emplace(second);
    sync(j.targets()[0], fill, first.span(), 3);
    EXPECT_THROW(async(j.targets()[0], [] { std::raise(SIGKILL); }).get(), node_failed);
    EXPECT_EQ((*failed)[99'999], 3);
  }
  j.remove(j.targets()[1]);
  expect_usable(*failed);
  expect_usable(*removed);
}

TEST(mapped, may_be_used_after_the_memory_was_freed) {
  const job j;
  // Blocks of this size give their pages back to the system.
  constexpr std::size_t size = (std::size_t{65} << 20) / sizeof(int);
  std::optional<buffer<int>> memory(j.targets().front().allocate<int>(size));
  const mapped here(*memory);
  expect_usable(here);
  memory.reset();
  // The release has ended when a later call has ended.
  (void)sync(j.targets().front(), [] { return 1; });
  expect_usable(here);
  const buffer<int> next = j.targets().front().allocate<int>(1000);
  EXPECT_EQ(map(next).data(), here.data()) << "the block is used again";
}

TEST(mapped, keeps_the_memory_until_the_last_copy_has_gone) {
  std::optional<mapped<int>> last;
  {
    const job j;
    const mapped first(j.targets().front().allocate<int>(1000));
    last.emplace(first);
  }
  expect_usable(*last);
  EXPECT_EQ(mapped_heaps(), 1U);
  last.reset();
  EXPECT_EQ(mapped_heaps(), 0U);
}

TEST(mapped, refuses_memory_that_farcall_has_not_allocated) {
  const job j;
  int own[4] = {};
  EXPECT_THAT(
      text_thrown_by<error>([&] { const mapped here{remote_span<int>{std::span<int>(own)}}; }),
      HasSubstr("not allocated with node::allocate"));
}

} // namespace
} // namespace farcall::test::mapped_test
