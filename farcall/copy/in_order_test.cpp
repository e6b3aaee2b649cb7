// SPDX-License-Identifier: Apache-2.0

// Copies in the order of calls: these tests start later operations without waiting for earlier
// ones.

#include "tests/sanitizer.hpp"

#include <farcall/base/error.hpp>
#include <farcall/copy/in_order.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test::in_order_test {
namespace {

using ::testing::HasSubstr;
using numbers = std::vector<std::uint64_t>;

/// Sizes that take one message, several, and the copy thread.
constexpr std::size_t sizes[] = {1, 1'000, 100'000, 1'500'000};

bool are_all(std::span<const std::uint64_t> values, std::uint64_t expected) {
  return std::all_of(values.begin(), values.end(), [=](auto v) { return v == expected; });
}

// ---- functions on the target ----

bool all_are(remote_span<const std::uint64_t> values, std::uint64_t expected) {
  return are_all(values.local(), expected);
}

void fill(remote_span<std::uint64_t> values, std::uint64_t with) {
  std::fill(values.begin(), values.end(), with);
}

using flag = std::uint32_t;

void wait_for(remote_span<flag> gate) {
  while (std::atomic_ref<flag>(gate[0]).load(std::memory_order_acquire) == 0)
    std::this_thread::yield();
}

void fill_behind(remote_span<flag> gate, remote_span<std::uint64_t> values, std::uint64_t with) {
  wait_for(gate);
  fill(values, with);
}

bool all_are_behind(remote_span<flag> gate, remote_span<const std::uint64_t> values,
                    std::uint64_t expected) {
  wait_for(gate);
  return all_are(values, expected);
}

/// A function on a target waits for the gate until this node opens it.
class gate {
 public:
  explicit gate(const node& where) : memory_(where.allocate<flag>(1)) {
    std::atomic_ref<flag>(map(memory_)[0]).store(0);
  }
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  ~gate() { open(); }
  void open() { std::atomic_ref<flag>(map(memory_)[0]).store(1, std::memory_order_release); }
  [[nodiscard]] remote_span<flag> span() const { return memory_.span(); }

 private:
  buffer<flag> memory_;
};

class order : public two_targets_test {};

TEST_F(order, calls_see_the_puts_before_them) {
  for (const std::size_t n : sizes) {
    const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(n);
    for (std::uint64_t round = 1; round < 6; ++round) {
      const numbers sent(n, round);
      future<void> put_done = put(sent, in_order(there));
      EXPECT_TRUE(sync(in_order(target_), all_are, there.span(), round)) << n;
      put_done.get();
    }
  }
}

TEST_F(order, gets_see_what_the_calls_before_them_write) {
  for (const std::size_t n : sizes) {
    gate closed(target_);
    const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(n);
    put_sync(numbers(n, 1), there);
    future<void> call = async(in_order(target_), fill_behind, closed.span(), there.span(), 2U);
    numbers got(n);
    future<void> get_done = get(in_order(there), got);
    EXPECT_FALSE(get_done.test());
    closed.open();
    get_done.get();
    EXPECT_TRUE(are_all(got, 2)) << n;
    call.get();
  }
}

TEST_F(order, gets_do_not_see_what_calls_behind_them_write) {
  for (const std::size_t n : sizes) {
    const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(n);
    put_sync(numbers(n, 1), there);
    numbers got(n);
    future<void> get_done = get(in_order(there), got);
    future<void> call = async(in_order(target_), fill, there.span(), 2U);
    get_done.get();
    EXPECT_TRUE(are_all(got, 1)) << n;
    call.get();
  }
}

TEST_F(order, calls_do_not_see_the_puts_behind_them) {
  for (const std::size_t n : sizes) {
    gate closed(target_);
    const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(n);
    put_sync(numbers(n, 1), there);
    future<bool> before = async(in_order(target_), all_are_behind, closed.span(), there.span(), 1U);
    const numbers sent(n, 2);
    future<void> put_done = put(sent, in_order(there));
    closed.open();
    EXPECT_TRUE(sync(in_order(target_), all_are, there.span(), 2U)) << n;
    EXPECT_TRUE(before.get()) << n;
    put_done.get();
  }
}

TEST_F(order, posted_calls_are_calls) {
  for (const std::size_t n : sizes) {
    gate closed(target_);
    const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(n);
    put_sync(numbers(n, 1), there);
    post(in_order(target_), fill_behind, closed.span(), there.span(), 2U);
    numbers got(n);
    future<void> get_done = get(in_order(there), got);
    closed.open();
    get_done.get();
    EXPECT_TRUE(are_all(got, 2)) << n;
  }
}

TEST_F(order, sync_copies_wait_for_the_calls_before_them) {
  const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(1'000'000);
  for (std::uint64_t round = 1; round < 50; ++round) {
    future<void> call = async(in_order(target_), fill, there.span(), round);
    std::uint64_t last = 0;
    get_sync(in_order(there.span().last(1)), {&last, 1});
    EXPECT_EQ(last, round);
    call.get();
    future<void> again = async(in_order(target_), fill, there.span(), round + 1);
    const std::uint64_t mine = 4711;
    put_sync(std::span(&mine, 1), in_order(there.span().last(1)));
    EXPECT_TRUE(sync(in_order(target_), all_are, there.span().last(1), mine));
    again.get();
  }
}

TEST_F(order, copies_of_the_same_memory_are_ordered) {
  constexpr std::size_t n = 3'000'000;
  const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(n);
  const numbers first(n, 1);
  const numbers second(n / 2, 2);
  const std::uint64_t third = 3;
  future<void> a = put(first, in_order(there));
  future<void> b = put(second, in_order(there));
  put_sync(std::span(&third, 1), in_order(there));
  numbers got(n);
  future<void> c = get(in_order(there), got);
  c.get();
  EXPECT_EQ(got[0], 3U);
  EXPECT_TRUE(are_all(std::span(got).subspan(1, n / 2 - 1), 2));
  EXPECT_TRUE(are_all(std::span(got).subspan(n / 2), 1));
  a.get();
  b.get();
}

TEST_F(order, copies_between_targets_follow_calls_of_both) {
  for (const std::size_t n : sizes) {
    gate closed(target_);
    gate also_closed(other_);
    const buffer<std::uint64_t> from = target_.allocate<std::uint64_t>(n);
    const buffer<std::uint64_t> to = other_.allocate<std::uint64_t>(n);
    put_sync(numbers(n, 1), from);
    put_sync(numbers(n, 7), to);
    future<void> filled = async(in_order(target_), fill_behind, closed.span(), from.span(), 2U);
    future<bool> seen = async(in_order(other_), all_are_behind, also_closed.span(), to.span(), 7U);
    future<void> copied = copy(in_order(from), in_order(to));
    closed.open();
    also_closed.open();
    future<void> filled_again = async(in_order(target_), fill, from.span(), 3U);
    EXPECT_TRUE(sync(in_order(other_), all_are, to.span(), 2U)) << n;
    EXPECT_TRUE(seen.get()) << n;
    copied.get();
    filled.get();
    filled_again.get();
    copy_sync(in_order(from), in_order(to));
    EXPECT_TRUE(sync(other_, all_are, to.span(), 3U)) << n;
  }
}

TEST(orders_of_memory, freed_in_order_is_not_written_to_afterwards) {
  job_options options = with_targets("shm");
  options.heap_bytes = std::size_t{96} << 20;
  const job job(options);
  const node target = job.targets().front();
  constexpr std::size_t n = std::size_t{8} << 20;
  const numbers ones(n, 1);
  const lane by(target);
  for (int round = 0; round < 6; ++round) {
    buffer<std::uint64_t> first = target.allocate<std::uint64_t>(n);
    future<void> put_done;
    if (round % 2 == 0) {
      put_done = put(ones, in_order(first));
      reset_in_order(first);
    } else {
      put_done = put(ones, in_order(first, by));
      reset_in_order(first, by);
      // The lane frees the buffer, and the next one is allocated.
      sync(by, [] {});
    }
    // The heap has no space for two.
    const buffer<std::uint64_t> second = target.allocate<std::uint64_t>(n);
    sync(in_order(target), fill, second.span(), 0U);
    put_done.get();
    EXPECT_TRUE(sync(in_order(target), all_are, second.span(), 0U));
  }
}

/// Frees memory after a running call and a put, which is sent as a message, and allocates as much.
template <class Place, class Memory, class Free>
void free_behind_calls(const node& where, const Place& place, Memory in, Free free) {
  constexpr std::size_t n = 1000;
  const numbers ones(n, 1);
  const numbers twos(n, 2);
  gate closed(where);
  buffer<std::uint64_t> first = where.allocate<std::uint64_t>(n);
  future<void> call = async(place, fill_behind, closed.span(), first.span(), 3U);
  future<void> put_done = put(ones, in(first));
  free(first);
  const buffer<std::uint64_t> second = where.allocate<std::uint64_t>(n);
  put_sync(twos, second);
  closed.open();
  call.get();
  put_done.get();
  numbers got(n);
  get_sync(second, got);
  EXPECT_TRUE(are_all(got, 2)) << "what was freed was written to, and was another's";
}

TEST_F(order, memory_is_freed_behind_the_calls_of_a_lane) {
  const lane by(target_);
  free_behind_calls(
      target_, in_order(by), [&](const auto& memory) { return in_order(memory, by); },
      [&](auto& memory) { reset_in_order(memory, by); });
}

TEST_F(order, memory_of_the_own_node_is_freed_behind_calls) {
  const node own = job_.host();
  const auto in = [](const auto& memory) { return in_order(memory); };
  free_behind_calls(own, in_order(own), in, [](auto& memory) { reset_in_order(memory); });
  free_behind_calls(own, own, in, [](auto& memory) { memory.reset(); });
}

TEST_F(order, lanes_of_other_jobs_order_nothing) {
  const job other(with_targets("shm"));
  const lane by(other.targets().front());
  const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(1);
  try {
    put_sync(numbers(1, 1), in_order(there, by));
    FAIL() << "was copied in the order of another job's calls";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), HasSubstr("of another job"));
  }
}

TEST_F(order, lanes_keep_an_order_of_their_own) {
  const lane first(target_);
  const lane second(target_);
  for (const std::size_t n : sizes) {
    gate closed(target_);
    const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(n);
    put_sync(numbers(n, 1), in_order(there, first));
    future<void> call = async(in_order(first), fill_behind, closed.span(), there.span(), 2U);
    numbers got(n);
    future<void> get_done = get(in_order(there, first), got);
    numbers got_beside(n);
    get_sync(in_order(there.span(), second), got_beside);
    EXPECT_TRUE(are_all(got_beside, 1)) << "of the other lane, which waits for nothing";
    closed.open();
    get_done.get();
    EXPECT_TRUE(are_all(got, 2)) << n;
    call.get();
  }
  const buffer<std::uint64_t> elsewhere = other_.allocate<std::uint64_t>(1);
  const numbers one(1);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)put(one, in_order(elsewhere, first)); }),
              HasSubstr("order of a lane to"));
}

TEST_F(order, views_limit_copies) {
  const buffer<std::uint64_t> there = target_.allocate<std::uint64_t>(2);
  numbers three(3);
  EXPECT_THROW((void)put(three, in_order(there)), error);
  EXPECT_THROW((void)get(in_order(there), three), error);
  EXPECT_THROW((void)copy(in_order(there), in_order(there.span().first(1))), error);
  put(std::span<const std::uint64_t>{}, in_order(there)).get();
}

TEST_F(order, copies_behind_a_target_that_dies_fail) {
  for (const bool is_large : {false, true}) {
    job job(with_targets("shm"));
    const node target = job.targets().front();
    gate closed(target);
    buffer<std::uint64_t> there = target.allocate<std::uint64_t>(2'000'000);
    future<void> call = async(in_order(target), fill_behind, closed.span(), there.span(), 2U);
    const numbers sent(is_large ? 2'000'000 : 10);
    future<void> put_done = put(sent, in_order(there));
    ::kill(static_cast<pid_t>(target.description().pid), SIGKILL);
    EXPECT_THROW(call.get(), node_failed);
    EXPECT_THROW(put_done.get(), node_failed);
    EXPECT_THROW(put(sent, in_order(there)).get(), node_failed);
    EXPECT_THROW(sync(in_order(target), fill, there.span(), 1U), node_failed);
    reset_in_order(there);
  }
}

/// Random copies and calls, compared with the same operations on memory of this process.
class random_order : public testing::TestWithParam<unsigned> {};

TEST_P(random_order, gives_the_result_of_sequential_operations) {
  const unsigned seed = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 dice(seed);
  const job job(with_targets("shm:2"));
  const node targets[] = {job.targets().at(0), job.targets().at(1)};
  constexpr std::size_t n = 700'000; // large enough for the copy thread
  const buffer<std::uint64_t> there[] = {targets[0].allocate<std::uint64_t>(n),
                                         targets[1].allocate<std::uint64_t>(n)};
  numbers model[] = {numbers(n), numbers(n)};
  for (const auto& memory : there)
    put_sync(model[0], memory);
  struct expected {
    numbers got;
    numbers all;
  };
  std::vector<std::unique_ptr<expected>> gets;
  std::vector<std::unique_ptr<numbers>> sources;
  std::vector<future<void>> all;
  for (std::uint64_t step = 1; step <= 60; ++step) {
    const std::size_t at = dice() % 2;
    const std::size_t length = dice() % 3 == 0 ? n : 1 + dice() % 2'000;
    const std::size_t begin = dice() % (n - length + 1);
    const remote_span<std::uint64_t> part = there[at].subspan(begin, length);
    const auto mine = std::span(model[at]).subspan(begin, length);
    switch (dice() % 5) {
    case 0:
      sources.push_back(std::make_unique<numbers>(length, step));
      all.push_back(put(*sources.back(), in_order(part)));
      std::fill(mine.begin(), mine.end(), step);
      break;
    case 1:
      gets.push_back(
          std::make_unique<expected>(numbers(length), numbers(mine.begin(), mine.end())));
      all.push_back(get(in_order(part), gets.back()->got));
      break;
    case 2:
      all.push_back(async(in_order(targets[at]), fill, part, step));
      std::fill(mine.begin(), mine.end(), step);
      break;
    case 3:
      post(in_order(targets[at]), fill, part, step);
      std::fill(mine.begin(), mine.end(), step);
      break;
    default:
      all.push_back(copy(in_order(part), in_order(there[1 - at].subspan(begin, length))));
      std::copy(mine.begin(), mine.end(),
                model[1 - at].begin() + static_cast<std::ptrdiff_t>(begin));
    }
    if (dice() % 8 == 0)
      all.erase(all.begin(),
                all.end() - std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(all.size())));
  }
  for (future<void>& each : all)
    each.get();
  for (std::size_t i = 0; i < 2; ++i) {
    numbers last(n);
    get_sync(in_order(there[i]), last);
    EXPECT_TRUE(last == model[i]) << "node " << i + 1;
  }
  for (std::size_t i = 0; i < gets.size(); ++i)
    EXPECT_TRUE(gets[i]->got == gets[i]->all) << "get " << i;
}

INSTANTIATE_TEST_SUITE_P(all, random_order, testing::Range(1U, under_sanitizer ? 5U : 21U));

} // namespace
} // namespace farcall::test::in_order_test
