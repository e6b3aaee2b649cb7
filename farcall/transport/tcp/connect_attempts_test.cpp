// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/connect_attempts.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tcp::connect_attempts_test {
namespace {

using namespace test_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class connect_attempts_test : public ::testing::Test {
 protected:
  [[nodiscard]] socket_address live() const {
    return resolve(local_address(listeners_.front().get())).front();
  }
  /// Returns an address without a listener.
  [[nodiscard]] static socket_address dead() {
    const auto listeners = listen_on({"127.0.0.1", 0});
    return resolve(local_address(listeners.front().get())).front();
  }

  silent_address silent_;
  std::vector<unique_fd> listeners_ = listen_on({"127.0.0.1", 0});
};

TEST_F(connect_attempts_test, skip_silent_and_refusing_addresses) {
  const unique_fd made = connect_to_first({silent_.where(), dead(), live()}, "it", soon());
  EXPECT_EQ(peer_text(made.get()), live().text());
}

TEST_F(connect_attempts_test, report_the_failure_of_each_address) {
  const socket_address refuses = dead();
  EXPECT_THAT(
      [&] {
        (void)connect_to_first({silent_.where(), refuses}, "it",
                               clock::now() + std::chrono::milliseconds(400));
      },
      ThrowsMessage<timeout>(AllOf(HasSubstr("cannot connect to it ("),
                                   HasSubstr(refuses.text() + ": Connection refused"),
                                   HasSubstr(silent_.where().text() + ": no reply in time"))));
}

} // namespace
} // namespace farcall::tcp::connect_attempts_test
