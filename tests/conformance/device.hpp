// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/device_test_support.hpp>
#include <tests/child.hpp>

/// Tests that every device must pass, emulated or not. One file of a test program includes them and
/// instantiates them with the URLs of its targets.
namespace farcall::device_tests {

/// Fixture with a job whose first target is the device.
class device_test : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam()).starts_with("cuda:") && !why_no_gpu().empty())
      GTEST_SKIP() << why_no_gpu();
    job_.emplace(test::with_targets(GetParam()));
    target_ = job_->targets().front();
  }

  std::optional<job> job_;
  node target_;
};

TEST_P(device_test, calls_functions_with_all_kinds_of_values) {
  EXPECT_TRUE(device::is_device(target_));
  sync(target_, pure_fn<nothing>);
  EXPECT_EQ(sync(target_, device_fn<add>, 1.5, 2.0), 3.5);
  EXPECT_EQ(sync(target_, pure_fn<add>, 1, 2), 3.0);
  const point p = sync(target_, device_fn<moved>, point{1.0, 7}, std::int8_t{-2});
  EXPECT_EQ(p.x, -1.0);
  EXPECT_EQ(p.n, 8);
  EXPECT_FALSE(sync(target_, device_fn<negate>, true));
}

template <std::size_t N>
void turn_on(const node& target) {
  for (std::uint32_t round = 0; round < 200; ++round) {
    block_of<N> b{};
    std::iota(b.words.begin(), b.words.end(), round);
    const block_of<N> back = sync(target, device_fn<turned<N>>, b);
    for (std::size_t i = 0; i < N; ++i)
      ASSERT_EQ(back.words[i], round + N - 1 - i) << N << " words, round " << round;
  }
}

// Lengths around the size of a slot (240 bytes of arguments, 248 of the reply), and up to the
// longest record.
TEST_P(device_test, arguments_and_results_of_all_lengths_arrive) {
  turn_on<1>(target_);
  turn_on<59>(target_);
  turn_on<60>(target_);
  turn_on<61>(target_);
  turn_on<62>(target_);
  turn_on<63>(target_);
  turn_on<64>(target_);
  turn_on<256>(target_);
  turn_on<1000>(target_);
#ifndef __CUDACC__
  // The compiler for GPUs would take minutes for it.
  turn_on<4000>(target_);
#endif
}

TEST_P(device_test, many_calls_may_be_outstanding) {
  std::vector<future<double>> all;
  for (int i = 0; i < 20'000; ++i)
    all.push_back(async(target_, device_fn<add>, i, 0.5));
  for (int i = 0; i < 20'000; ++i)
    ASSERT_EQ(all[static_cast<std::size_t>(i)].get(), i + 0.5);
}

TEST_P(device_test, memory_is_allocated_copied_and_used_by_teams) {
  constexpr std::size_t n = 100'003;
  std::vector<std::uint64_t> values(n);
  std::iota(values.begin(), values.end(), 0U);
  const auto memory = target_.allocate<std::uint64_t>(n);
  put(values, memory).get();
  const std::uint64_t sum = sync(target_, team_fn<square_all>, memory.span());
  EXPECT_EQ(sum, (n - 1) * n * (2 * n - 1) / 6);
  std::vector<std::uint64_t> back(n);
  get(memory, back).get();
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_EQ(back[i], i * i);
}

/// Fixture of tests for teams, which would take too long in the other tests.
class device_team_test : public device_test {};

// A function that one thread runs is a team of one, which must not wait for other threads.
TEST_P(device_team_test, all_threads_of_a_team_may_fail_at_once) {
  for (int round = 0; round < 300; ++round) {
    EXPECT_EQ(sync(target_, team_fn<refuse_by_all>, 5), 5);
    const auto e =
        thrown_by<remote_error>([this] { (void)sync(target_, team_fn<refuse_by_all>, -5); });
    ASSERT_TRUE(e);
    ASSERT_EQ(e->text(), "a negative number, as all of the team have found");
  }
}

TEST_P(device_team_test, functions_know_how_many_threads_run_them) {
  constexpr std::size_t n = 1000;
  const auto memory = target_.allocate<std::uint32_t>(n);
  put(std::vector<std::uint32_t>(n, 0), memory).get();
  EXPECT_EQ(sync(target_, device_fn<count_up>, memory.span()), 1U);
  EXPECT_EQ(sync(target_, pure_fn<count_up>, memory.span()), 1U);
  const std::uint32_t threads = sync(target_, team_fn<count_up>, memory.span());
  EXPECT_GE(threads, 1U);
  EXPECT_EQ(sync(target_, device_fn<count_up>, memory.span()), 1U) << "after a team";
  std::vector<std::uint32_t> back(n);
  get(memory, back).get();
  EXPECT_EQ(back, std::vector<std::uint32_t>(n, 4));
}

TEST_P(device_test, large_copies_and_copies_between_nodes_arrive) {
  constexpr std::size_t n = std::size_t{3} << 20;
  std::vector<std::uint32_t> values(n);
  std::iota(values.begin(), values.end(), 5U);
  auto a = target_.allocate<std::uint32_t>(n);
  auto b = target_.allocate<std::uint32_t>(n);
  const auto here = job_->host().allocate<std::uint32_t>(n);
  put(values, a).get();
  copy(a, b).get();
  copy(b, here).get();
  std::vector<std::uint32_t> back(n);
  get(here, back).get();
  EXPECT_EQ(back, values);
}

// Short copies are messages to a worker; longer ones use the device's copy function.
TEST_P(device_test, copies_of_any_length_arrive_and_touch_nothing_else) {
  constexpr std::size_t n = 5000;
  const auto memory = target_.allocate<std::uint8_t>(n);
  std::vector<std::uint8_t> right(n, 0xEE);
  put(right, memory).get();
  std::uint8_t value = 1;
  for (const std::size_t length :
       {0U, 1U, 7U, 8U, 63U, 64U, 65U, 66U, 223U, 224U, 233U, 500U, 2047U, 2048U, 2049U, 4096U}) {
    for (const std::size_t at : {0U, 1U, 13U}) {
      const std::vector<std::uint8_t> some(length, ++value);
      put(some, memory.subspan(at, length)).get();
      std::fill_n(right.begin() + static_cast<std::ptrdiff_t>(at), length, value);
      std::vector<std::uint8_t> back(length);
      get(memory.subspan(at, length), back).get();
      ASSERT_EQ(back, some) << length << " at " << at;
    }
    std::vector<std::uint8_t> all(n);
    get(memory, all).get();
    ASSERT_EQ(all, right) << length;
  }
}

TEST_P(device_test, copies_of_unallocated_memory_throw) {
  const auto memory = target_.allocate<std::uint8_t>(100);
  // An address of the device's reserved range that has no memory yet.
  const remote_span<std::uint8_t> wild(target_.id(), memory.span().address() + (512U << 20), 8);
  std::vector<std::uint8_t> bytes(8);
  EXPECT_THROW(put(bytes, wild).get(), error);
  EXPECT_THROW(get(wild, bytes).get(), error);
  EXPECT_EQ(sync(target_, device_fn<add>, 1.0, 2.0), 3.0);
}

TEST_P(device_test, a_few_bytes_are_copied_inside_a_device) {
  const auto a = target_.allocate<std::uint8_t>(100);
  const auto b = target_.allocate<std::uint8_t>(100);
  std::vector<std::uint8_t> values(100);
  std::iota(values.begin(), values.end(), std::uint8_t{1});
  put(values, a).get();
  copy(a.subspan(3, 5), b.subspan(0, 5)).get();
  std::vector<std::uint8_t> back(5);
  get(b, back).get();
  EXPECT_EQ(back, std::vector<std::uint8_t>(values.begin() + 3, values.begin() + 8));
}

TEST_P(device_test, memory_is_given_back) {
  for (int round = 0; round < 20; ++round) {
    const auto most = target_.allocate<std::byte>(std::size_t{900} << 20);
    EXPECT_EQ(most.size(), std::size_t{900} << 20);
    // The memory is freed after earlier calls, so wait for the last of them.
    sync(target_, pure_fn<nothing>);
  }
}

TEST_P(device_test, allocating_too_much_throws_with_both_sizes) {
  const std::string why = text_thrown_by<out_of_memory>(
      [this] { (void)target_.allocate<std::byte>(std::size_t{1} << 40); });
  EXPECT_THAT(why, AllOf(HasSubstr("1099511627776 bytes"), HasSubstr("the device has")));
}

TEST_P(device_test, functions_without_device_code_are_errors_that_name_them) {
  const std::string pointer =
      text_thrown_by<unknown_function>([this] { (void)sync(target_, add, 1.0, 2.0); });
  EXPECT_THAT(pointer, AllOf(HasSubstr("node 1"), HasSubstr("device_fn")));
  const std::string named =
      text_thrown_by<unknown_function>([this] { (void)sync(target_, fn<add>, 1.0, 2.0); });
  EXPECT_THAT(named, AllOf(HasSubstr("add"), HasSubstr("device_fn")));
  // The device still works.
  EXPECT_EQ(sync(target_, device_fn<add>, 1.0, 2.0), 3.0);
}

TEST_P(device_test, handlers_call_the_host_which_serves_while_it_waits) {
  EXPECT_EQ(sync(target_, device_fn<sum_of_squares>, 200), 200 * 201 * 401 / 6);
  EXPECT_EQ(sync(target_, device_fn<square_there>, -1 + 2), 1);
}

TEST_P(device_test, an_exception_on_the_host_ends_the_call) {
  const auto e =
      thrown_by<remote_error>([this] { (void)sync(target_, device_fn<square_there>, -3); });
  ASSERT_TRUE(e.has_value());
  EXPECT_EQ(e->type_name(), "farcall::device_error");
  EXPECT_EQ(e->text(), "no square of -3");
  // A text that, with its type, is longer than a slot is truncated.
  const auto longer =
      thrown_by<remote_error>([this] { (void)sync(target_, device_fn<fail_there>, 300U); });
  ASSERT_TRUE(longer.has_value());
  EXPECT_EQ(longer->text(), std::string(184, 'x'));
  EXPECT_EQ(sync(target_, device_fn<square_there>, 4), 16);
}

// More calls than a lane has slots for.
TEST_P(device_test, calls_to_the_host_may_have_long_replies) {
  EXPECT_EQ(sync(target_.within(test::wait_limit), device_fn<sum_of_host_blocks>, 200U), 20'100U);
}

TEST_P(device_test, calls_to_the_host_may_be_posted) {
  posted = 0;
  sync(target_, device_fn<count_there>, 500);
  for (const auto begun = clock::now();
       posted.load() != 500 && clock::now() < begun + test::wait_limit;)
    std::this_thread::yield();
  EXPECT_EQ(posted.load(), 500);
}

TEST_P(device_test, handlers_fail_with_a_text) {
  EXPECT_EQ(sync(target_, device_fn<refuse>, 5), 5);
  const auto e = thrown_by<remote_error>([this] { (void)sync(target_, device_fn<refuse>, -5); });
  ASSERT_TRUE(e.has_value());
  EXPECT_EQ(e->text(), "a negative number");
  EXPECT_EQ(e->node(), 1U);
  EXPECT_EQ(sync(target_, device_fn<refuse>, 6), 6);
}

TEST_P(device_test, grids_run_and_complete_futures) {
  constexpr std::size_t n = 10'000;
  const std::vector<float> ones(n, 1.0F);
  const auto memory = target_.allocate<float>(n);
  put(ones, memory).get();
  std::vector<future<void>> all;
  for (int i = 0; i < 200; ++i)
    all.push_back(async(target_, grid{.blocks = 7}, device_fn<add_to_all>, memory.span(), 0.5F));
  for (future<void>& f : all)
    f.get();
  std::vector<float> back(n);
  get(memory, back).get();
  EXPECT_EQ(back, std::vector<float>(n, 101.0F));
  // A launch beside another call, whose future is waited for in sleep.
  future<void> f = async(target_, grid{}, device_fn<add_to_all>, memory.span(), 1.0F);
  EXPECT_EQ(sync(target_, device_fn<add>, 1.0, 2.0), 3.0);
  EXPECT_TRUE(f.wait_for(test::wait_limit));
  f.get();
}

// device::when() needs no launch of its own.
TEST_P(device_test, a_future_waits_for_a_stream_of_launches) {
  constexpr std::size_t n = 1000;
  const auto memory = target_.allocate<float>(n);
  put(std::vector<float>(n, 1.0F), memory).get();
  const lane own(target_);
  std::vector<float> back(n);
  for (int round = 1; round <= 20; ++round) {
    const future<void> first =
        async(target_, grid{.blocks = 7}, device_fn<add_to_all>, memory.span().first(n / 2), 1.0F);
    const future<void> second =
        async(own, grid{.blocks = 7}, device_fn<add_to_all>, memory.span().last(n / 2), 1.0F);
    future<void> all = device::when(target_, device::stream(target_));
    device::when(own, device::stream(own)).get();
    all.get();
    get(memory, back).get();
    ASSERT_EQ(back, std::vector<float>(n, 1.0F + static_cast<float>(round)));
  }
  // One more than may be outstanding on a lane.
  std::vector<future<void>> many;
  for (int i = 0; i < 65; ++i)
    many.push_back(device::when(target_.within(test::wait_limit), device::stream(target_)));
  for (future<void>& f : many)
    f.get();
}

TEST_P(device_test, grids_know_their_blocks) {
  constexpr std::uint32_t blocks = 9;
  constexpr std::size_t each = 77;
  const auto memory = target_.allocate<std::uint32_t>(blocks * each);
  std::vector<std::uint32_t> values(blocks * each, 5);
  put(values, memory).get();
  sync(target_, grid{.blocks = blocks, .threads = 32}, device_fn<number_blocks>, memory.span(),
       each);
  get(memory, values).get();
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], 5 + 1000 * blocks + i / each);
}

// The buffer is destroyed while launches still use its memory.
TEST_P(device_test, launches_keep_their_memory_until_they_end) {
  constexpr std::size_t n = std::size_t{1} << 16;
  const lane other(target_);
  std::vector<future<void>> all;
  std::vector<std::uint32_t> ones(n, 1);
  for (int round = 0; round < 30; ++round) {
    auto memory = target_.allocate<std::uint32_t>(n);
    put(ones, memory).get();
    for (const std::uint32_t blocks : {4U, 8U})
      all.push_back(async(other, grid{.blocks = blocks}, device_fn<number_blocks>, memory.span(),
                          n / blocks));
    if (round != 29) continue;
    for (future<void>& f : all)
      f.get();
    get(memory, ones).get();
  }
  EXPECT_EQ(ones.front(), 1 + 4000U + 8000U);
  EXPECT_EQ(ones.back(), 1 + 4003U + 8007U);
}

TEST_P(device_test, idle_workers_leave_and_a_call_starts_them) {
  device::quiesce(target_);
  const std::uint64_t before = device::worker_starts(target_);
  for (int round = 0; round < 5; ++round) {
    // Keep the workers for the call: on a slow machine they might leave before it arrives, and be
    // started twice.
    device::pin_resident(target_);
    EXPECT_EQ(sync(target_, device_fn<add>, 1.0, round), 1.0 + round);
    device::pin_resident(target_, false);
    device::quiesce(target_);
  }
  EXPECT_EQ(device::worker_starts(target_), before + 5);
}

// Calls race with workers that are about to leave: each call must be run.
TEST_P(device_test, calls_reach_workers_that_are_leaving) {
  for (int round = 0; round < 300; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(800 + round));
    ASSERT_EQ(sync(target_, device_fn<add>, 1.0, round), 1.0 + round);
  }
}

TEST_P(device_test, workers_may_stay) {
  device::pin_resident(target_);
  sync(target_, pure_fn<nothing>);
  const std::uint64_t before = device::worker_starts(target_);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(sync(target_, device_fn<add>, 1.0, round), 1.0 + round);
  }
  EXPECT_EQ(device::worker_starts(target_), before);
  device::pin_resident(target_, false);
}

TEST_P(device_test, a_fork_leaves_the_device_alone) {
  const auto memory = target_.allocate<std::uint64_t>(100);
  future<double> pending = async(target_, device_fn<add>, 1.0, 2.0);
  test::forked_child child([&] {
    try {
      (void)sync(target_, device_fn<add>, 3.0, 4.0);
      return 1;
    } catch (const forked&) {
    }
    const future<double> dropped = std::move(pending);
    job_.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(pending.get(), 3.0);
  EXPECT_EQ(sync(target_, device_fn<add>, 5.0, 6.0), 11.0);
  std::vector<std::uint64_t> values(100, 3);
  put(values, memory).get();
  EXPECT_EQ(sync(target_, team_fn<square_all>, memory.span()), 900U);
}

TEST_P(device_test, several_threads_call_at_once) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i)
        EXPECT_EQ(sync(target_, device_fn<add>, t, i), t + i);
    });
  }
  for (std::thread& t : threads)
    t.join();
}

TEST_P(device_test, a_sleeping_caller_receives_the_reply) {
  future<double> f = async(target_, device_fn<add>, 1.0, 1.0);
  EXPECT_TRUE(f.wait_for(10s));
  EXPECT_EQ(f.get(), 2.0);
}

} // namespace farcall::device_tests
