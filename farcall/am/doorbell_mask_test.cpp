#include <farcall/am/doorbell_mask.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

namespace farcall::am {
namespace {

class doorbell_masks : public ::testing::Test {
 protected:
  /// As its sleeper leaves it.
  void raise_flag() { doorbell_.word.fetch_or(armed_flag); }
  [[nodiscard]] bool flag_is_up() const { return (doorbell_.word.load() & armed_flag) != 0; }
  [[nodiscard]] std::uint32_t rings() const { return doorbell_.word.load() >> 1; }
  /// The service thread finds that somebody has masked the doorbell, and naps from now on.
  void have_service_nap() {
    (void)mask_.mask();
    ASSERT_TRUE(mask_.nap());
  }

  doorbell doorbell_;
  doorbell_mask mask_{doorbell_};
};

TEST_F(doorbell_masks, take_the_flag_away) {
  raise_flag();
  EXPECT_TRUE(mask_.mask());
  EXPECT_FALSE(flag_is_up());
}

TEST_F(doorbell_masks, give_the_flag_back) {
  raise_flag();
  EXPECT_TRUE(mask_.mask());
  const std::uint32_t before = rings();
  mask_.unmask();
  EXPECT_TRUE(flag_is_up());
  EXPECT_EQ(rings(), before) << "raising the flag is no ring";
}

TEST_F(doorbell_masks, wake_the_service_thread_that_does_not_nap_yet) {
  raise_flag();
  EXPECT_TRUE(mask_.mask());
  EXPECT_EQ(rings(), 1U) << "it sleeps on the doorbell's own protocol, which is off now";
}

TEST_F(doorbell_masks, do_not_wake_the_service_thread_that_naps) {
  have_service_nap();
  const std::uint32_t before = rings();
  EXPECT_TRUE(mask_.mask());
  EXPECT_EQ(rings(), before);
}

TEST_F(doorbell_masks, are_in_use_while_the_service_thread_watches) {
  EXPECT_FALSE(mask_.is_in_use());
  have_service_nap();
  EXPECT_TRUE(mask_.is_in_use());
}

TEST_F(doorbell_masks, end_the_naps_where_there_are_none) {
  EXPECT_FALSE(mask_.nap());
  EXPECT_FALSE(mask_.is_in_use());
}

TEST_F(doorbell_masks, let_it_nap_until_there_was_none_since_the_last_look) {
  have_service_nap();
  EXPECT_TRUE(mask_.mask());
  EXPECT_TRUE(mask_.nap());
  EXPECT_FALSE(mask_.nap());
  EXPECT_FALSE(mask_.is_in_use());
  EXPECT_TRUE(mask_.mask());
  EXPECT_TRUE(mask_.nap()) << "again";
}

TEST_F(doorbell_masks, are_refused_while_a_thread_needs_the_doorbell) {
  raise_flag();
  {
    const doorbell_mask::only_doorbell_wakes needed(mask_);
    const doorbell_mask::only_doorbell_wakes needed_twice(mask_);
    EXPECT_FALSE(mask_.mask());
  }
  EXPECT_TRUE(flag_is_up()) << "that thread is asleep behind it";
  EXPECT_TRUE(mask_.mask());
}

TEST_F(doorbell_masks, that_are_refused_end_the_naps) {
  const doorbell_mask::only_doorbell_wakes needed(mask_);
  EXPECT_FALSE(mask_.mask());
  EXPECT_FALSE(mask_.nap());
}

} // namespace
} // namespace farcall::am
