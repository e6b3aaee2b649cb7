// SPDX-License-Identifier: Apache-2.0

// Tests that the host refuses targets with another byte order or pointer size. The forging target
// only pretends to have them.
#include <farcall/farcall.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace different {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal_of(const std::string& forgery) {
  return farcall::test::text_thrown_by<farcall::start_failed>([&] {
    const farcall::job job(farcall::test::with_targets(
        "shm,exec:'" + std::string(DIFFERENT_FORGING_TARGET) + "' " + forgery));
  });
}

TEST(other_machines, are_refused_in_one_line_that_says_why) {
  for (const std::string where : {"first ", "card "}) {
    const auto names_it = AllOf(HasSubstr("node 2 ("), HasSubstr("forging_target " + where),
                                HasSubstr("cannot join"), Not(HasSubstr("\n")));
    EXPECT_THAT(refusal_of(where + "byte-order"),
                AllOf(names_it, HasSubstr("other byte order"), HasSubstr("needs one byte order")));
    EXPECT_THAT(refusal_of(where + "pointers"),
                AllOf(names_it, HasSubstr("pointers of 4 bytes, this program of 8")));
    EXPECT_THAT(refusal_of(where + "version"),
                AllOf(names_it, HasSubstr("version 99"), HasSubstr("with the same farcall")));
    EXPECT_THAT(refusal_of(where + "something"), names_it);
  }
}

TEST(other_machines, are_refused_before_anything_else_is_sent) {
  // The forging target ignores further messages, so a host that went on would run into its timeout.
  const auto begin = std::chrono::steady_clock::now();
  (void)refusal_of("first pointers");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(9));
}

TEST(other_machines, the_forging_target_joins_without_a_forgery) {
  const farcall::job job(farcall::test::with_targets(
      "exec:'" + std::string(DIFFERENT_FORGING_TARGET) + "' card nothing"));
  EXPECT_EQ(job.targets().size(), 1U);
}

} // namespace
} // namespace different
