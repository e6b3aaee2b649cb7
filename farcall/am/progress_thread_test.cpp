#include <farcall/am/progress_thread.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::test::progress_thread_test {
namespace {

/// Its descriptor is readable while something has arrived.
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

TEST(progress_thread, is_not_there_where_no_transport_has_a_descriptor) {
  fake_transport without;
  transport* const all[] = {&without};
  EXPECT_FALSE(am::progress_thread(all).is_running());
  EXPECT_FALSE(am::progress_thread({}).is_running());
}

TEST(progress_thread, moves_the_bytes_of_transports_that_have_some) {
  waited_for quiet;
  fake_transport without;
  waited_for busy;
  transport* const all[] = {&quiet, &without, &busy};
  const am::progress_thread thread(all);
  EXPECT_TRUE(thread.is_running());
  for (std::uint64_t i = 1; i <= 100; ++i) {
    busy.have_arrive(1);
    ASSERT_TRUE(eventually([&] { return busy.progressed == i; }));
  }
  quiet.have_arrive(1);
  EXPECT_TRUE(eventually([&] { return quiet.progressed == 1; }));
  EXPECT_EQ(busy.progressed, 100U);
}

TEST(progress_thread, ends_while_nothing_arrives) {
  waited_for quiet;
  transport* const all[] = {&quiet};
  {
    const am::progress_thread thread(all);
  }
  quiet.have_arrive(1);
  EXPECT_EQ(quiet.progressed, 0U) << "nobody waits any more";
}

} // namespace
} // namespace farcall::test::progress_thread_test
