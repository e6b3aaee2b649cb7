// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/wait_any.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace farcall::test::wait_any_test {
namespace {

using std::chrono::milliseconds;

int same(int v) { return v; }

int wait_for_word(handshake::words words, std::uint32_t at) {
  const auto here = map(words);
  return handshake::wait(here, at, 1) ? static_cast<int>(at) : -1;
}

class waits_for_any : public four_targets_test {
 protected:
  std::optional<std::size_t> wait(std::vector<future<int>>& futures, time_point deadline) {
    std::vector<am::completion*> states;
    for (const future<int>& f : futures)
      states.push_back(detail::future_access::state(f));
    return detail::wait_any(states, deadline);
  }

  /// Starts calls: element i is ready once word i is set.
  std::vector<future<int>> start(handshake& words, std::uint32_t count) {
    std::vector<future<int>> futures;
    for (std::uint32_t i = 0; i < count; ++i)
      futures.push_back(async(job_.targets()[i], wait_for_word, words.span(), i));
    return futures;
  }
};

TEST_F(waits_for_any, find_the_ready_future) {
  handshake words(job_.host());
  auto futures = start(words, 4);
  for (const std::uint32_t next : {2U, 0U, 3U, 1U}) {
    words.set(next);
    const auto ready = wait(futures, deadline_after(wait_limit));
    ASSERT_EQ(ready, next);
    EXPECT_EQ(futures[next].get(), static_cast<int>(next));
    // The remaining futures are waited for again; this one is replaced.
    futures[next] = async(target_, wait_for_word, words.span(), 8U);
  }
  words.set(8);
}

TEST_F(waits_for_any, leave_the_futures_when_the_time_is_over) {
  handshake words(job_.host());
  auto futures = start(words, 3);
  EXPECT_EQ(wait(futures, deadline_after(milliseconds(1))), std::nullopt);
  EXPECT_EQ(wait(futures, deadline_after(milliseconds(1))), std::nullopt);
  for (std::uint32_t i = 0; i < 3; ++i)
    words.set(i);
  EXPECT_NE(wait(futures, deadline_after(wait_limit)), std::nullopt);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(futures[static_cast<std::size_t>(i)].get(), i);
}

TEST_F(waits_for_any, find_one_that_was_ready_before) {
  std::vector<future<int>> futures;
  futures.push_back(async(target_, same, 5));
  futures.front().wait();
  EXPECT_EQ(wait(futures, deadline_after(wait_limit)), 0U);
  EXPECT_EQ(futures.front().get(), 5);
}

TEST_F(waits_for_any, refuse_futures_of_two_jobs) {
  job other(with_targets("shm"));
  handshake words(job_.host());
  auto futures = start(words, 1);
  futures.push_back(async(other.targets().front(), same, 1));
  EXPECT_THROW((void)wait(futures, deadline_after(wait_limit)), error);
  words.set(0);
}

} // namespace
} // namespace farcall::test::wait_any_test
