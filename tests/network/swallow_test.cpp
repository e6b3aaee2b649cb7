// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxied_job.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

/// Tests forwarders that acknowledge bytes and do not deliver them.
namespace farcall::test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds timeout{500};

class network_forwarders : public testing::TestWithParam<std::tuple<proxy::way, bool>>,
                           protected proxied_job {
 protected:
  network_forwarders() : proxied_job(std::get<1>(GetParam()), timeout) {}
  static proxy::way swallowed() { return std::get<0>(GetParam()); }
};

TEST_P(network_forwarders, that_swallow_a_lane_fail_its_calls) {
  between_->swallow(swallowed());
  future<pid_t> call = async(target_, ::getpid);
  ASSERT_TRUE(call.wait_for(std::chrono::seconds(60)));
  EXPECT_THROW((void)call.get(), node_failed);
  EXPECT_TRUE(target_.alive());
  // The sender notices the loss, on either side.
  EXPECT_TRUE(log_.comes_to_say("acknowledged on the way and did not arrive"));
  between_->swallow(proxy::way::none);
  EXPECT_EQ(sync(target_, ::getpid), pid_);
}

/// Repeated over another address, without the forwarder.
TEST_P(network_forwarders, that_swallow_copies_have_them_repeated) {
  const auto memory = target_.allocate<char>(1'000'000);
  put_sync(std::vector<char>(memory.size(), 'a'), memory);
  between_->swallow(swallowed());
  const std::vector<char> sent(memory.size(), 'b');
  put_sync(sent, memory);
  EXPECT_EQ(log_.count("acknowledged on the way and did not arrive"), 1U) << log_.text();
  std::vector<char> got(sent.size());
  get_sync(memory, got);
  EXPECT_EQ(got, sent);
  between_->swallow(proxy::way::none);
}

TEST_P(network_forwarders, that_swallow_ends_of_copies_block_none) {
  const auto memory = target_.allocate<char>(1'000'000);
  std::vector<char> all(memory.size(), 'a');
  between_->swallow(swallowed(), all.size() / 4);
  const auto copy = [&] {
    swallowed() == proxy::way::to_server ? put_sync(all, memory) : get_sync(memory, all);
  };
  for (int i = 0; i < 2; ++i) {
    try {
      copy();
    } catch (const error&) {
      // Pieces copied by calls may be lost, too.
    }
  }
  EXPECT_TRUE(target_.alive());
  EXPECT_TRUE(log_.comes_to_say("acknowledged on the way and did not arrive"));
  between_->swallow(proxy::way::none);
  EXPECT_NO_THROW(copy());
}

/// The bytes of a copy pass slowly: it takes many timeouts.
TEST_P(network_forwarders, that_are_slow_let_copies_go_on) {
  const auto memory = target_.allocate<char>(200'000);
  const std::vector<char> sent(memory.size(), 'a');
  put_sync(std::vector<char>(memory.size(), 'z'), memory);
  between_->slow_down(64 << 10);
  put_sync(sent, memory);
  std::vector<char> got(sent.size());
  get_sync(memory, got);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(log_.count("did not arrive"), 0U) << log_.text();
}

TEST_P(network_forwarders, that_hold_all_back_for_a_while_lose_nothing) {
  const auto memory = target_.allocate<char>(1'000'000);
  std::vector<char> sent(memory.size(), 'a');
  put_sync(sent, memory);
  between_->fall_silent();
  std::thread network([&] {
    std::this_thread::sleep_for(timeout * 9 / 10);
    between_->speak_again();
  });
  sent.assign(sent.size(), 'b');
  future<pid_t> call = async(target_, ::getpid);
  EXPECT_NO_THROW(put_sync(sent, memory));
  EXPECT_NO_THROW(EXPECT_EQ(call.get(), pid_));
  network.join();
  std::vector<char> got(sent.size());
  get_sync(memory, got);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(log_.count("did not arrive"), 0U) << log_.text();
}

TEST_P(network_forwarders, that_deliver_let_handlers_run_for_long) {
  future<int> slow = async(target_, [] {
    std::this_thread::sleep_for(5 * timeout);
    return 1;
  });
  // More requests than fit the lane's ring.
  std::vector<future<std::size_t>> behind;
  for (int i = 0; i < 400; ++i)
    behind.push_back(async(
        target_, [](const std::vector<char>& v) { return v.size(); }, std::vector<char>(3000)));
  EXPECT_EQ(slow.get(), 1);
  for (future<std::size_t>& f : behind)
    EXPECT_EQ(f.get(), 3000U);
  EXPECT_EQ(log_.count("did not arrive"), 0U) << log_.text();
}

INSTANTIATE_TEST_SUITE_P(
    with, network_forwarders,
    testing::Combine(testing::Values(proxy::way::to_server, proxy::way::to_client),
                     testing::Bool()),
    [](const auto& of) {
      return std::string(std::get<0>(of.param) == proxy::way::to_server ? "requests" : "replies") +
             (std::get<1>(of.param) ? "_tls" : "_tcp");
    });

} // namespace
} // namespace farcall::test
