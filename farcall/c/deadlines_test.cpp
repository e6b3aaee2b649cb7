// SPDX-License-Identifier: Apache-2.0

// Tests of deadlines in the C interface. A stopped target stands for any target that does not
// reply.
#include <farcall/farcall.h>
#include <farcall/offload/job_state.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall::test::deadlines_test {
namespace {

constexpr std::int64_t soon = 30'000'000;
constexpr std::int64_t in_time = std::chrono::nanoseconds(wait_limit).count();
constexpr std::size_t large = async_copy_from + 4096;

void end_at_once(fc_reply* /*reply*/, const void* /*bytes*/, size_t /*size*/, void* /*user*/) {}

fc_function callee() { return fc_named("end at once"); }

/// Registered before main(), and thereby in all processes.
const bool registered = fc_register("end at once", &end_at_once, nullptr) == FC_OK;

std::uint64_t bytes_in_use() { return detail::current_job().engine->heap().bytes_in_use(); }

class deadlines_in_c : public two_targets_test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(registered);
    ASSERT_EQ(fc_node_at(nullptr, target_.id(), &there_), FC_OK);
    ASSERT_EQ(fc_node_at(nullptr, other_.id(), &elsewhere_), FC_OK);
  }

  [[nodiscard]] static fc_future* call(fc_node where) {
    fc_future* f = nullptr;
    EXPECT_EQ(fc_call_async(where, callee(), nullptr, 0, &f), FC_OK);
    return f;
  }
  [[nodiscard]] static fc_span allocate(fc_node where, std::uint64_t bytes) {
    fc_span memory{};
    EXPECT_EQ(fc_allocate(where, bytes, &memory), FC_OK);
    return memory;
  }

  fc_node there_{};
  fc_node elsewhere_{};
};

TEST_F(deadlines_in_c, of_allocations) {
  fc_span memory{};
  {
    const stopped_target stopped(target_);
    EXPECT_EQ(fc_allocate(fc_within(there_, soon), 1000, &memory), FC_TIMEOUT);
    EXPECT_EQ(fc_error_node(), target_.id());
  }
  EXPECT_EQ(fc_allocate(fc_within(there_, in_time), 1000, &memory), FC_OK);
  EXPECT_EQ(memory.node, target_.id());
}

TEST_F(deadlines_in_c, end_late_copies) {
  const fc_span memory = allocate(there_, large);
  std::vector<char> local(large, 'x');
  EXPECT_EQ(fc_put_within(nullptr, memory, local.data(), large, 0), FC_TIMEOUT);
  EXPECT_EQ(fc_error_node(), target_.id());
  EXPECT_EQ(fc_get_within(nullptr, memory, local.data(), large, 0), FC_TIMEOUT);
  fc_future* f = nullptr;
  ASSERT_EQ(fc_put_async_within(nullptr, memory, local.data(), large, 0, &f), FC_OK);
  EXPECT_EQ(fc_future_get(f, nullptr, nullptr), FC_TIMEOUT);
  fc_future_drop(f);
  ASSERT_EQ(fc_get_async_within(nullptr, memory, local.data(), large, 0, &f), FC_OK);
  EXPECT_EQ(fc_future_get(f, nullptr, nullptr), FC_TIMEOUT);
  fc_future_drop(f);
}

TEST_F(deadlines_in_c, leave_timely_copies_alone) {
  const fc_span memory = allocate(there_, large);
  const fc_span other = allocate(elsewhere_, large);
  const std::vector<char> local(large, 'x');
  std::vector<char> back(large);
  for (const std::int64_t timeout : {in_time, std::int64_t{-1}, INT64_MAX}) {
    EXPECT_EQ(fc_put_within(nullptr, memory, local.data(), large, timeout), FC_OK);
    EXPECT_EQ(fc_copy_within(nullptr, memory, other, timeout), FC_OK);
    back.assign(large, 0);
    EXPECT_EQ(fc_get_within(nullptr, other, back.data(), large, timeout), FC_OK);
    EXPECT_EQ(back, local);
    fc_future* f = nullptr;
    back.assign(large, 0);
    ASSERT_EQ(fc_get_async_within(nullptr, memory, back.data(), large, timeout, &f), FC_OK);
    EXPECT_EQ(fc_future_get(f, nullptr, nullptr), FC_OK);
    EXPECT_EQ(back, local);
    fc_future_drop(f);
  }
}

TEST_F(deadlines_in_c, end_copies_between_targets) {
  const fc_span memory = allocate(there_, 1000);
  const fc_span other = allocate(elsewhere_, 1000);
  const stopped_target stopped(other_);
  EXPECT_EQ(fc_copy_within(nullptr, memory, other, soon), FC_TIMEOUT);
  fc_future* f = nullptr;
  ASSERT_EQ(fc_copy_async_within(nullptr, memory, other, soon, &f), FC_OK);
  EXPECT_EQ(fc_future_get(f, nullptr, nullptr), FC_TIMEOUT);
  fc_future_drop(f);
}

TEST_F(deadlines_in_c, late_releases_leave_the_memory) {
  const fc_span memory = allocate(there_, std::size_t{1} << 20);
  const std::uint64_t before = sync(target_, bytes_in_use);
  {
    stopped_target stopped(target_);
    EXPECT_TRUE(ends(
        [&] {
          fc_status status = FC_OK;
          // No longer than the message that frees the memory, so that it finds no space either.
          while (status == FC_OK)
            status = fc_post(fc_within(there_, soon), callee(), nullptr, 0);
          EXPECT_EQ(status, FC_TIMEOUT);
          EXPECT_EQ(fc_release_within(nullptr, memory, soon), FC_TIMEOUT);
        },
        [&] { stopped.resume(); }));
  }
  EXPECT_EQ(sync(target_, bytes_in_use), before);
  EXPECT_EQ(fc_release_within(nullptr, memory, in_time), FC_OK);
  EXPECT_LT(sync(target_, bytes_in_use), before);
}

constexpr int not_yet = -1;

/// Notes the status of a future that was given away.
void note_status(fc_future* ready, void* user) {
  const fc_status status = fc_future_get(ready, nullptr, nullptr);
  fc_future_drop(ready);
  static_cast<std::atomic<int>*>(user)->store(status);
}

TEST_F(deadlines_in_c, end_futures_that_were_given_away) {
  std::atomic<int> of_call{not_yet};
  std::atomic<int> of_copy{not_yet};
  const fc_span memory = allocate(there_, large);
  std::vector<char> local(large, 'x');
  {
    const stopped_target stopped(target_);
    ASSERT_EQ(fc_future_then(call(fc_within(there_, soon)), &note_status, &of_call), FC_OK);
    fc_future* copy = nullptr;
    ASSERT_EQ(fc_put_async_within(nullptr, memory, local.data(), large, 0, &copy), FC_OK);
    ASSERT_EQ(fc_future_then(copy, &note_status, &of_copy), FC_OK);
    EXPECT_TRUE(eventually([&] { return of_call != not_yet && of_copy != not_yet; }));
    EXPECT_EQ(of_call, FC_TIMEOUT);
    EXPECT_EQ(of_copy, FC_TIMEOUT);
  }
  of_call = not_yet;
  ASSERT_EQ(fc_future_then(call(fc_within(there_, in_time)), &note_status, &of_call), FC_OK);
  EXPECT_TRUE(eventually([&] {
    (void)fc_progress(nullptr);
    return of_call != not_yet;
  }));
  EXPECT_EQ(of_call, FC_OK);
}

TEST_F(deadlines_in_c, end_waits_for_any_of_several_futures) {
  const stopped_target stopped(target_);
  fc_future* futures[] = {call(there_), call(fc_within(there_, soon))};
  std::size_t index = 0;
  EXPECT_EQ(fc_wait_any(futures, 2, in_time, &index), FC_OK) << fc_error_text();
  EXPECT_EQ(index, 1U);
  EXPECT_EQ(fc_future_get(futures[1], nullptr, nullptr), FC_TIMEOUT);
  EXPECT_EQ(fc_wait_any(futures, 1, soon, &index), FC_TIMEOUT);
  for (fc_future* each : futures)
    fc_future_drop(each);
}

TEST_F(deadlines_in_c, end_waits_for_lanes) {
  std::vector<fc_node> all;
  fc_node lane{};
  fc_status status = FC_OK;
  while ((status = fc_lane_open(fc_within(there_, in_time), &lane)) == FC_OK)
    all.push_back(lane);
  ASSERT_EQ(status, FC_ERROR) << fc_error_text();
  ASSERT_GT(all.size(), 100U);
  // The lane cannot be reclaimed while the target is stopped.
  {
    stopped_target stopped(target_);
    EXPECT_EQ(fc_post(all.back(), callee(), nullptr, 0), FC_OK);
    fc_lane_close(all.back());
    all.pop_back();
    EXPECT_TRUE(ends([&] { EXPECT_EQ(fc_lane_open(fc_within(there_, soon), &lane), FC_TIMEOUT); },
                     [&] { stopped.resume(); }));
  }
  EXPECT_EQ(fc_lane_open(fc_within(there_, in_time), &lane), FC_OK);
  EXPECT_EQ(lane.deadline, 0) << "that of the opening says nothing about the calls";
  all.push_back(lane);
  for (const fc_node& each : all)
    fc_lane_close(each);
}

} // namespace
} // namespace farcall::test::deadlines_test
