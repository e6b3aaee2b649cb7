// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/balanced_map.hpp>
#include <farcall/async/stop_token.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

namespace farcall::test::balanced_map_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::size_t length(const std::string& text) { return text.size(); }
int negative(int v) { return -v; }
std::int64_t where_it_runs(int /*v*/) { return ::getpid(); }

int fail_at_zero(int v) {
  if (v == 0) throw std::out_of_range("no zero");
  while (!stop_token_of_call().stop_requested())
    ::usleep(100);
  return v;
}

int end_at_five(int v) {
  if (v == 5) ::_exit(1);
  return v;
}

std::atomic<int> calls_here{0};
void count_call(int /*v*/) { ++calls_here; }
int calls_so_far() { return calls_here; }

class balanced_maps : public four_targets_test {};

TEST_F(balanced_maps, keep_the_order_of_the_elements) {
  for (const int count : {1, 7, 256, 100'000}) {
    const std::vector<int> got =
        map(job_.targets(), fn<negative>, std::views::iota(0, count)).get();
    ASSERT_EQ(got.size(), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(got[static_cast<std::size_t>(i)], -i);
  }
  EXPECT_THAT(map(job_.targets(), fn<length>, std::vector<const char*>{"", "a", "bc"}).get(),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(map(job_.targets(), fn<negative>, std::vector<int>{}).get(), IsEmpty());
}

TEST_F(balanced_maps, run_on_all_nodes) {
  std::vector<std::int64_t> ran =
      map(job_.targets(), fn<where_it_runs>, std::views::iota(0, 1000)).get();
  std::ranges::sort(ran);
  EXPECT_EQ(std::ranges::unique(ran).begin() - ran.begin(), 4);
  const node one[] = {target_};
  EXPECT_THAT(map(one, fn<where_it_runs>, std::views::iota(0, 100)).get(),
              Each(target_.description().pid));
}

TEST_F(balanced_maps, call_functions_without_result) {
  map(job_.targets(), fn<count_call>, std::views::iota(0, 5'000)).get();
  int all = 0;
  for (const node& target : job_.targets())
    all += sync(target, calls_so_far);
  EXPECT_EQ(all, 5'000);
}

// The node of element 0 waits until the other nodes have run everything but the two messages that
// it has itself.
TEST_F(balanced_maps, give_more_to_nodes_that_are_faster) {
  constexpr std::size_t count = 1600;
  constexpr std::size_t streams = 8;
  constexpr std::size_t most_in_message = count / (2 * streams);
  handshake words(job_.host());
  const auto f = [words = words.span()](int v) {
    return v != 0 || handshake::wait(farcall::map(words), 0, 1) ? v : -1;
  };
  std::size_t seen = 0;
  future<std::vector<int>> all =
      map(job_.targets(), f, std::views::iota(0, static_cast<int>(count)),
          [&](std::size_t done, std::size_t of) {
            EXPECT_EQ(of, count);
            EXPECT_GT(done, seen);
            seen = done;
            if (done >= count - 2 * most_in_message) words.set(0);
          });
  const std::vector<int> got = all.get();
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(got[i], static_cast<int>(i));
  EXPECT_EQ(seen, count);
}

TEST_F(balanced_maps, stop_at_the_first_failure) {
  future<std::vector<int>> all = map(job_.targets(), fn<fail_at_zero>, std::views::iota(0, 10'000));
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)all.get(); }), HasSubstr("no zero"));
  // The other messages end because they are stopped.
  for (const node& target : job_.targets())
    EXPECT_EQ(sync(target, own_number), target.id());
}

TEST_F(balanced_maps, fail_with_a_node) {
  future<std::vector<int>> all = map(job_.targets(), fn<end_at_five>, std::views::iota(0, 10'000));
  EXPECT_THROW((void)all.get(), node_failed);
}

TEST_F(balanced_maps, are_ended_by_their_progress) {
  future<std::vector<int>> all =
      map(job_.targets(), fn<negative>, std::views::iota(0, 10'000),
          [](std::size_t, std::size_t) { throw std::runtime_error("enough"); });
  EXPECT_THAT(text_thrown_by<std::runtime_error>([&] { (void)all.get(); }), HasSubstr("enough"));
}

TEST_F(balanced_maps, need_nodes_of_one_job) {
  const job other(with_targets("shm"));
  const node both[] = {target_, other.targets().front()};
  EXPECT_THROW((void)map(both, fn<negative>, std::vector<int>{1}), error);
  EXPECT_THROW((void)map(std::span<const node>(), fn<negative>, std::vector<int>{1}), error);
  const node empty[] = {node()};
  EXPECT_THROW((void)map(empty, fn<negative>, std::vector<int>{1}), error);
}

TEST_F(balanced_maps, that_are_dropped_end_with_their_job) {
  {
    auto dropped = map(job_.targets(), fn<negative>, std::views::iota(0, 10'000));
  }
  EXPECT_EQ(sync(target_, own_number), target_.id());
}

} // namespace
} // namespace farcall::test::balanced_map_test
