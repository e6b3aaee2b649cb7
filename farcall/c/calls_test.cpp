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

} // namespace
} // namespace farcall::test::calls_test
