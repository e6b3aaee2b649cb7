// SPDX-License-Identifier: Apache-2.0

// Tests of AM_PAR: several threads send from, poll and wait for one bundle at once.
#include "support.hpp"

#include <atomic>
#include <cstring>
#include <thread>

namespace farcall::am2::test {
namespace {

enum : handler_t { on_request = 7, on_reply = 8 };
constexpr int threads = 3;
constexpr int each = 400;

std::array<std::atomic<int>, threads * each> requests{};
std::array<std::atomic<int>, threads * each> replies{};
std::atomic<int> replies_in_all{0};

void count_and_reply(void* token, void* payload, size_t bytes, int32_t number) {
  std::int32_t sent = 0;
  ASSERT_EQ(bytes, sizeof sent);
  std::memcpy(&sent, payload, bytes);
  EXPECT_EQ(sent, ~number);
  ++requests[static_cast<std::size_t>(number)];
  EXPECT_EQ(AM_Reply1(token, on_reply, number), AM_OK);
}
void take(void* /*token*/, int32_t number) {
  ++replies[static_cast<std::size_t>(number)];
  ++replies_in_all;
}

class am2_parallel : public two_endpoints {
 protected:
  am2_parallel() : two_endpoints(16, AM_PAR) {}

  void SetUp() override {
    two_endpoints::SetUp();
    for (auto* counts : {&requests, &replies})
      for (auto& c : *counts)
        c = 0;
    replies_in_all = 0;
    ASSERT_EQ(AM_SetHandler(b_, on_request, count_and_reply), AM_OK);
    ASSERT_EQ(AM_SetHandler(a_, on_reply, take), AM_OK);
    ASSERT_EQ(AM_MoveEndpoint(b_, b_bundle_, a_bundle_), AM_OK);
  }
};

TEST_F(am2_parallel, each_handler_runs_once) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([this, t] {
      for (int i = 0; i < each; ++i) {
        const int number = t * each + i;
        std::int32_t payload = ~number;
        EXPECT_EQ(AM_RequestI1(a_, 1, on_request, &payload, sizeof payload, number), AM_OK);
      }
      while (replies_in_all != threads * each)
        EXPECT_EQ(AM_Poll(a_bundle_), AM_OK);
    });
  }
  for (auto& t : running)
    t.join();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(requests[i], 1) << i;
    ASSERT_EQ(replies[i], 1) << i;
  }
}

TEST_F(am2_parallel, threads_that_wait_are_woken) {
  ASSERT_EQ(AM_SetEventMask(a_bundle_, AM_NOTEMPTY), AM_OK);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> waiting;
  for (int t = 0; t < threads; ++t) {
    waiting.emplace_back([&] {
      while (!is_over) {
        EXPECT_EQ(AM_WaitSema(a_bundle_), AM_OK);
        EXPECT_EQ(AM_Poll(a_bundle_), AM_OK);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    std::int32_t payload = ~i;
    ASSERT_EQ(AM_RequestI1(a_, 1, on_request, &payload, sizeof payload, i), AM_OK);
  }
  while (replies_in_all != 50)
    std::this_thread::yield();
  is_over = true;
  for (int t = 0; t < threads; ++t)
    ASSERT_EQ(AM2_PostSema(a_bundle_), AM_OK);
  for (auto& t : waiting)
    t.join();
}

} // namespace
} // namespace farcall::am2::test
