// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace veo_test {
namespace {

// Results that kernels get from veo_prev_req_result().

class previous_result : public ::testing::Test {
 protected:
  process& proc() { return process_; }
  veo_thr_ctxt* context() { return context_; }
  std::uint64_t ask(std::int32_t offset) { return submit(context_, previous_, offset); }
  std::uint64_t give(std::uint64_t value) { return submit(context_, returns_, value); }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }
  /// Returns the last return value of the function itself.
  std::int64_t status() { return process_.read<std::int64_t>(status_); }

 private:
  process process_;
  // Looked up here, because a look-up counts as a request.
  std::uint64_t previous_ = process_.symbol("previous", "previous");
  std::uint64_t returns_ = process_.symbol("returns", "previous");
  std::uint64_t sum_ = process_.symbol("add_previous_two", "previous");
  std::uint64_t status_ = process_.symbol("previous_status", "previous");
  veo_thr_ctxt* context_ = process_.open();
};

TEST_F(previous_result, comes_from_the_request_before) {
  for (std::uint64_t i = 100; i < 110; ++i) {
    (void)give(i);
    EXPECT_EQ(collect(context(), ask(0)), ok(i));
    EXPECT_EQ(status(), 0);
  }
}

TEST_F(previous_result, may_be_an_earlier_one) {
  for (const std::uint64_t value : {11U, 22U, 33U, 44U})
    (void)give(value);
  EXPECT_EQ(collect(context(), ask(3)), ok(11));
  // The request that asked counts, too.
  EXPECT_EQ(collect(context(), ask(1)), ok(44));
  EXPECT_EQ(collect(context(), ask(0)), ok(44));
  EXPECT_EQ(collect(context(), ask(5)), ok(22));
}

TEST_F(previous_result, can_be_added_to_another) {
  (void)give(30);
  (void)give(12);
  EXPECT_EQ(call(context(), sum()), ok(42));
}

TEST_F(previous_result, needs_an_earlier_request) {
  (void)collect(context(), ask(0));
  EXPECT_NE(status(), 0);
  (void)give(5);
  (void)collect(context(), ask(100));
  EXPECT_NE(status(), 0);
  (void)collect(context(), ask(-1));
  EXPECT_NE(status(), 0);
}

TEST_F(previous_result, is_one_of_the_same_context) {
  veo_thr_ctxt* const other = proc().open();
  const std::uint64_t returns = proc().symbol("returns", "previous");
  (void)give(5);
  ASSERT_EQ(call(other, returns, std::uint64_t{6}), ok(6));
  ASSERT_EQ(call(proc().main(), returns, std::uint64_t{7}), ok(7));
  EXPECT_EQ(collect(context(), ask(0)), ok(5));
}

TEST_F(previous_result, is_the_address_after_an_allocation) {
  const std::uint64_t allocates = veo_alloc_mem_async(context(), 100);
  const std::uint64_t asks = ask(0);
  const outcome address = collect(context(), allocates);
  ASSERT_EQ(address.state, VEO_COMMAND_OK);
  EXPECT_EQ(collect(context(), asks), address);
}

TEST_F(previous_result, is_0_after_freeing) {
  const outcome address = collect(context(), veo_alloc_mem_async(context(), 100));
  (void)veo_free_mem_async(context(), address.value);
  const std::uint64_t asks = ask(0);
  EXPECT_EQ(collect(context(), asks), ok(0));
  EXPECT_EQ(collect(context(), ask(2)), address);
}

TEST_F(previous_result, does_not_count_look_ups_of_another_context) {
  (void)give(8);
  const arguments a(std::int32_t{0});
  // The first look-up of a name is a request of the main context.
  const bounded b("veo_call_async_by_name");
  ASSERT_NE(proc().symbol("note"), 0U);
  EXPECT_EQ(collect(context(), ask(0)), ok(8));
}

TEST(previous_result_on_main, counts_an_implicit_look_up) {
  process p;
  const std::uint64_t library = p.library("previous");
  const std::uint64_t address = p.allocate(4000);
  const arguments a(std::int32_t{1});
  const bounded b("veo_call_async_by_name");
  // The look-up is the request before the call, and the allocation the request before the look-up.
  const std::uint64_t request = veo_call_async_by_name(p.main(), library, "previous", a.get());
  EXPECT_EQ(collect(p.main(), request), ok(address));
  // The second call makes no request for the look-up.
  const std::uint64_t next = p.allocate(4000);
  const arguments zero(std::int32_t{0});
  EXPECT_EQ(collect(p.main(), veo_call_async_by_name(p.main(), library, "previous", zero.get())),
            ok(next));
}

} // namespace
} // namespace veo_test
