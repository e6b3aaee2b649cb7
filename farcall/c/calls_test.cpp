// SPDX-License-Identifier: Apache-2.0

// Tests that need C++: handlers that throw, and both interfaces in one program. The other tests are
// in tests/c_interface.
#include <farcall/c/c_test_support.hpp>
#include <farcall/farcall.h>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace farcall::test::calls_test {
namespace {

void throw_at_caller(fc_reply* /*reply*/, const void* /*bytes*/, size_t size, void* /*user*/) {
  throw std::out_of_range("no " + std::to_string(size));
}

int twice(int v) { return 2 * v; }

/// Handler of a call from C that calls back with the C++ interface.
void twice_by_the_host(fc_reply* reply, const void* bytes, size_t size, void* /*user*/) {
  int v = 0;
  if (size == sizeof v) std::memcpy(&v, bytes, size);
  v = sync(host(), twice, v);
  fc_reply_bytes(reply, &v, sizeof v);
}

/// Registered before main(), and thereby in all processes.
const bool registered = fc_register("throw at caller", &throw_at_caller, nullptr) == FC_OK &&
                        fc_register("twice by the host", &twice_by_the_host, nullptr) == FC_OK;

class calls_from_c : public two_targets_test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(registered);
    ASSERT_EQ(fc_node_at(nullptr, target_.id(), &there_), FC_OK);
  }

  fc_node there_{};
};

TEST_F(calls_from_c, bring_the_exceptions_of_handlers) {
  EXPECT_EQ(fc_call(there_, fc_named("throw at caller"), "abc", 3, nullptr, 0, nullptr),
            FC_REMOTE_ERROR);
  EXPECT_STREQ(fc_error_type(), "std::out_of_range");
  EXPECT_STREQ(fc_error_text(), "node 1 threw std::out_of_range: no 3");
  EXPECT_EQ(fc_error_node(), 1U);
}

TEST_F(calls_from_c, and_from_cpp_go_together) {
  EXPECT_EQ(sync(target_, twice, 4), 8);
  int got = 0;
  const int sent = 21;
  EXPECT_EQ(
      fc_call(there_, fc_named("twice by the host"), &sent, sizeof sent, &got, sizeof got, nullptr),
      FC_OK);
  EXPECT_EQ(got, 42);
}

TEST_F(calls_from_c, start_in_order_with_those_from_cpp) {
  // The C and C++ interfaces use the thread's same lane to a node.
  future<int> one = async(target_, twice, 1);
  fc_future* two = nullptr;
  const int sent = 2;
  ASSERT_EQ(fc_call_async(there_, fc_named("twice by the host"), &sent, sizeof sent, &two), FC_OK);
  EXPECT_EQ(fc_future_get(two, nullptr, nullptr), FC_OK);
  EXPECT_TRUE(one.test());
  fc_future_drop(two);
}

TEST_F(calls_from_c, may_come_from_threads_that_end_before_their_futures) {
  std::vector<fc_future*> futures(64);
  std::jthread([&] {
    for (auto& f : futures) {
      const int sent = 5;
      ASSERT_EQ(fc_call_async(there_, fc_named("twice by the host"), &sent, sizeof sent, &f),
                FC_OK);
    }
  }).join();
  for (fc_future* f : futures) {
    const void* bytes = nullptr;
    size_t size = 0;
    int got = 0;
    EXPECT_EQ(fc_future_get(f, &bytes, &size), FC_OK);
    ASSERT_EQ(size, sizeof got);
    std::memcpy(&got, bytes, size);
    EXPECT_EQ(got, 10);
    fc_future_drop(f);
  }
}

using ::testing::HasSubstr;

/// Calls in C whose messages have parts.
class gathered_calls : public c_test {
 protected:
  /// Calls "echo" with these parts and returns the reply.
  [[nodiscard]] std::string echo(const std::vector<fc_bytes>& parts) const {
    fc_future* result = nullptr;
    if (fc_callv(there_, fc_named("echo"), parts.data(), parts.size(), &result) != FC_OK) {
      ADD_FAILURE() << fc_error_text();
      return "";
    }
    EXPECT_TRUE(fc_future_test(result));
    std::string got = text_in(result);
    fc_future_drop(result);
    return got;
  }
};

TEST_F(gathered_calls, contain_their_parts_without_gaps) {
  const std::string large(1'000'000, 'x');
  EXPECT_EQ(echo({}), "");
  EXPECT_EQ(echo({{nullptr, 0}}), "");
  EXPECT_EQ(echo({part_of("abc")}), "abc");
  EXPECT_EQ(echo({part_of("a"), {nullptr, 0}, part_of("bcd"), part_of("e")}), "abcde");
  EXPECT_EQ(echo({part_of("a"), part_of(large), part_of("b")}), "a" + large + "b");
}

TEST_F(gathered_calls, may_be_asynchronous_or_have_no_result) {
  const fc_bytes parts[] = {part_of("ab"), part_of("c")};
  fc_future* call = nullptr;
  ASSERT_EQ(fc_call_asyncv(there_, fc_named("echo"), parts, 2, &call), FC_OK);
  EXPECT_EQ(text_in(call), "abc");
  fc_future_drop(call);
  const fc_span word = words_.span(0);
  const auto* const bytes = reinterpret_cast<const char*>(&word);
  const fc_bytes halves[] = {{bytes, 5}, {bytes + 5, sizeof word - 5}};
  ASSERT_EQ(fc_postv(there_, fc_named("count"), halves, 2), FC_OK);
  EXPECT_TRUE(words_.becomes(0, 1));
}

TEST_F(gathered_calls, return_the_status_of_the_call) {
  fc_future* result = nullptr;
  EXPECT_EQ(fc_callv(there_, fc_named("throw at caller"), nullptr, 0, &result), FC_REMOTE_ERROR);
  EXPECT_STREQ(fc_error_type(), "std::out_of_range");
  EXPECT_EQ(fc_callv(there_, fc_named("of no handler"), nullptr, 0, &result), FC_UNKNOWN_FUNCTION);
  EXPECT_THAT(fc_error_text(), HasSubstr("'of no handler'"));
  const stopped_target stopped(target_);
  EXPECT_EQ(fc_callv(fc_within(there_, soon), fc_named("echo"), nullptr, 0, &result), FC_TIMEOUT);
  EXPECT_EQ(result, nullptr) << "it is set for FC_OK only";
}

TEST_F(gathered_calls, refuse_parts_that_cannot_exist) {
  fc_future* result = nullptr;
  const fc_function f = fc_named("echo");
  const fc_bytes nowhere[] = {part_of("a"), {nullptr, 1}};
  EXPECT_EQ(fc_callv(there_, f, nowhere, 2, &result), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_callv(there_, f, nullptr, 1, &result), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_postv(there_, f, nullptr, 1), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_callv(there_, f, nullptr, 0, nullptr), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_callv(there_, 0, nullptr, 0, &result), FC_INVALID_ARGUMENT);
  const fc_bytes negative[] = {{"a", SIZE_MAX}};
  EXPECT_EQ(fc_callv(there_, f, negative, 1, &result), FC_INVALID_ARGUMENT);
  const fc_bytes too_large[] = {{"a", PTRDIFF_MAX}, {"b", PTRDIFF_MAX}};
  EXPECT_EQ(fc_call_asyncv(there_, f, too_large, 2, &result), FC_INVALID_ARGUMENT);
  EXPECT_EQ(result, nullptr);
}

/// Calls in C that never wait.
class tried_calls : public c_test {
 protected:
  /// Calls "echo" with a number, and returns the status.
  [[nodiscard]] fc_status try_call(fc_node where, std::uint32_t number) {
    const fc_bytes parts[] = {bytes_of(number), part_of(filling_)};
    fc_future* call = nullptr;
    const fc_status status = fc_try_call_async(where, fc_named("echo"), parts, 2, &call);
    if (status == FC_OK) calls_.push_back(call);
    return status;
  }
  /// Checks that each call of try_call() has got its own reply.
  void expect_replies() {
    for (std::uint32_t i = 0; i < calls_.size(); ++i) {
      std::uint32_t number = 0;
      const std::string got = text_in(calls_[i]);
      ASSERT_EQ(got.size(), sizeof number + filling_.size());
      std::memcpy(&number, got.data(), sizeof number);
      EXPECT_EQ(number, i);
      fc_future_drop(calls_[i]);
    }
    calls_.clear();
  }

  const std::string filling_ = std::string(200, 'f');
  std::vector<fc_future*> calls_;
};

TEST_F(tried_calls, are_sent_if_the_lane_has_space) {
  // The first call also opens the lane of the thread.
  for (std::uint32_t i = 0; i < 3; ++i)
    ASSERT_EQ(try_call(i == 1 ? fc_stoppable(there_) : there_, i), FC_OK) << fc_error_text();
  expect_replies();
}

TEST_F(tried_calls, are_not_sent_while_the_lane_is_full) {
  fc_future* none = nullptr;
  const std::string large(1'000'000, 'x');
  const fc_bytes part = part_of(large);
  {
    const stopped_target stopped(target_);
    fc_status status = FC_OK;
    while (status == FC_OK)
      status = try_call(there_, static_cast<std::uint32_t>(calls_.size()));
    ASSERT_EQ(status, FC_WOULD_BLOCK) << fc_error_text();
    EXPECT_EQ(fc_error_node(), target_.id());
    EXPECT_THAT(fc_error_text(), HasSubstr("full"));
    const fc_node places[] = {there_, fc_stoppable(there_), fc_within(there_, in_time)};
    for (const fc_node& place : places) {
      EXPECT_EQ(try_call(place, 0), FC_WOULD_BLOCK);
      EXPECT_EQ(fc_try_call_async(place, fc_named("echo"), &part, 1, &none), FC_WOULD_BLOCK);
    }
    EXPECT_EQ(none, nullptr);
  }
  ASSERT_GT(calls_.size(), 10U);
  expect_replies();
  EXPECT_EQ(try_call(there_, 0), FC_OK);
  expect_replies();
}

TEST_F(tried_calls, arrive_exactly_once) {
  const fc_span word = words_.span(0);
  const fc_bytes part = bytes_of(word);
  std::uint32_t sent = 0;
  std::vector<fc_future*> calls;
  for (int round = 0; round < 20; ++round) {
    const stopped_target stopped(target_);
    fc_future* call = nullptr;
    while (fc_try_call_async(there_, fc_named("count"), &part, 1, &call) == FC_OK) {
      ++sent;
      calls.push_back(call);
    }
    EXPECT_EQ(fc_error_status(), FC_WOULD_BLOCK);
  }
  for (fc_future* call : calls) {
    EXPECT_EQ(fc_future_get(call, nullptr, nullptr), FC_OK);
    fc_future_drop(call);
  }
  EXPECT_EQ(words_.get(0), sent);
}

TEST_F(tried_calls, do_not_wait_for_lanes) {
  std::vector<fc_node> lanes;
  fc_node lane{};
  while (fc_lane_open(there_, &lane) == FC_OK)
    lanes.push_back(lane);
  ASSERT_GT(lanes.size(), 100U);
  {
    // A closed lane cannot be taken back while the target is stopped.
    stopped_target stopped(target_);
    EXPECT_EQ(fc_post(lanes.back(), fc_named("echo"), nullptr, 0), FC_OK);
    fc_lane_close(lanes.back());
    lanes.pop_back();
    EXPECT_TRUE(ends(
        [&] {
          EXPECT_EQ(try_call(there_, 0), FC_WOULD_BLOCK);
          EXPECT_THAT(fc_error_text(), HasSubstr("no lane"));
        },
        [&] { stopped.resume(); }));
  }
  for (const fc_node& each : lanes)
    fc_lane_close(each);
}

TEST_F(tried_calls, fail_like_others) {
  fc_future* call = nullptr;
  EXPECT_EQ(fc_try_call_async(there_, 0, nullptr, 0, &call), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_try_call_async(there_, fc_named("echo"), nullptr, 0, nullptr), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_try_call_async({}, fc_named("echo"), nullptr, 0, &call), FC_INVALID_ARGUMENT);
  {
    const stopped_target stopped(target_);
    ASSERT_EQ(fc_try_call_async(fc_within(there_, soon), fc_named("echo"), nullptr, 0, &call),
              FC_OK);
    EXPECT_EQ(fc_future_get(call, nullptr, nullptr), FC_TIMEOUT);
    fc_future_drop(call);
  }
}

} // namespace
} // namespace farcall::test::calls_test
