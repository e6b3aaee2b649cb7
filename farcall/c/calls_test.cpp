// Tests that need C++: handlers that throw, and both interfaces in one program. The other tests are
// in tests/c_interface.
#include <farcall/farcall.h>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

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

} // namespace
} // namespace farcall::test::calls_test
