#include <farcall/am/cover.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

namespace farcall::am {
namespace {

class covers : public ::testing::Test {
 protected:
  /// As its sleeper leaves it.
  void raise_flag() { bell_.word.fetch_or(asleep_flag); }
  [[nodiscard]] bool flag_is_up() const { return (bell_.word.load() & asleep_flag) != 0; }
  [[nodiscard]] std::uint32_t rings() const { return bell_.word.load() >> 1; }
  /// The service thread finds that somebody has covered, and watches from now on.
  void have_service_watch() {
    (void)cover_.lower();
    ASSERT_TRUE(cover_.watch());
  }

  bell bell_;
  cover cover_{bell_};
};

TEST_F(covers, take_the_flag_away) {
  raise_flag();
  EXPECT_TRUE(cover_.lower());
  EXPECT_FALSE(flag_is_up());
}

TEST_F(covers, give_the_flag_back) {
  raise_flag();
  EXPECT_TRUE(cover_.lower());
  const std::uint32_t before = rings();
  cover_.raise();
  EXPECT_TRUE(flag_is_up());
  EXPECT_EQ(rings(), before) << "raising the flag is no ring";
}

TEST_F(covers, wake_the_service_thread_that_does_not_watch_yet) {
  raise_flag();
  EXPECT_TRUE(cover_.lower());
  EXPECT_EQ(rings(), 1U) << "it sleeps on the bell's own protocol, which is off now";
}

TEST_F(covers, do_not_wake_the_service_thread_that_watches) {
  have_service_watch();
  const std::uint32_t before = rings();
  EXPECT_TRUE(cover_.lower());
  EXPECT_EQ(rings(), before);
}

TEST_F(covers, are_usual_while_the_service_thread_watches) {
  EXPECT_FALSE(cover_.is_usual());
  have_service_watch();
  EXPECT_TRUE(cover_.is_usual());
}

TEST_F(covers, are_not_watched_where_there_are_none) {
  EXPECT_FALSE(cover_.watch());
  EXPECT_FALSE(cover_.is_usual());
}

TEST_F(covers, are_watched_until_there_was_none_since_the_last_look) {
  have_service_watch();
  EXPECT_TRUE(cover_.lower());
  EXPECT_TRUE(cover_.watch());
  EXPECT_FALSE(cover_.watch());
  EXPECT_FALSE(cover_.is_usual());
  EXPECT_TRUE(cover_.lower());
  EXPECT_TRUE(cover_.watch()) << "again";
}

TEST_F(covers, are_refused_while_a_thread_needs_the_bell) {
  raise_flag();
  {
    const cover::only_bell_wakes needed(cover_);
    const cover::only_bell_wakes needed_twice(cover_);
    EXPECT_FALSE(cover_.lower());
  }
  EXPECT_TRUE(flag_is_up()) << "that thread is asleep behind it";
  EXPECT_TRUE(cover_.lower());
}

TEST_F(covers, that_are_refused_are_not_watched) {
  const cover::only_bell_wakes needed(cover_);
  EXPECT_FALSE(cover_.lower());
  EXPECT_FALSE(cover_.watch());
}

} // namespace
} // namespace farcall::am
