// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/progress_events.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <span>

#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::test::progress_events_test {
namespace {

/// Transport whose wait descriptor is readable while the test has something to receive.
class waited_for : public fake_transport {
 public:
  [[nodiscard]] int wait_fd() const noexcept override { return events_.get(); }
  void progress() noexcept override {
    std::uint64_t arrived = 0;
    if (::read(events_.get(), &arrived, sizeof arrived) == sizeof arrived) progressed += arrived;
  }
  void have_arrive(std::uint64_t count) const {
    ASSERT_EQ(::write(events_.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  }

  std::atomic<std::uint64_t> progressed{0};

 private:
  unique_fd events_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST(progress_events, start_no_loop_if_no_transport_has_a_descriptor) {
  fake_transport without;
  transport* const all[] = {&without};
  EXPECT_FALSE(am::progress_events(all).has_loop());
  EXPECT_FALSE(am::progress_events(std::span<transport* const>()).has_loop());
}

TEST(progress_events, move_bytes_of_transports_whose_descriptor_is_readable) {
  waited_for quiet;
  fake_transport without;
  waited_for busy;
  transport* const all[] = {&quiet, &without, &busy};
  const am::progress_events events(all);
  EXPECT_TRUE(events.has_loop());
  for (std::uint64_t i = 1; i <= 100; ++i) {
    busy.have_arrive(1);
    ASSERT_TRUE(eventually([&] { return busy.progressed == i; }));
  }
  quiet.have_arrive(1);
  EXPECT_TRUE(eventually([&] { return quiet.progressed == 1; }));
  EXPECT_EQ(busy.progressed, 100U);
}

TEST(progress_events, end_while_nothing_arrives) {
  waited_for quiet;
  transport* const all[] = {&quiet};
  {
    const am::progress_events events(all);
  }
  quiet.have_arrive(1);
  EXPECT_EQ(quiet.progressed, 0U) << "the loop waits no more";
}

} // namespace
} // namespace farcall::test::progress_events_test
