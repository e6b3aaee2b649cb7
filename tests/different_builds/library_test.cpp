// SPDX-License-Identifier: Apache-2.0

// Tests of a target built with libc++ and a host built with libstdc++: calls with types of equal
// layout work, and others are refused.
#include "tests/different_builds/different_builds.hpp"
#include "tests/different_builds/program.hpp"
#include "tests/different_builds/values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace different {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class other_library : public ::testing::Test {
 protected:
  void SetUp() override {
    const other_program program = of_other_library();
    if (const std::string why = why_not_here(program); !why.empty()) GTEST_SKIP() << why;
    job_.emplace(farcall::test::with_targets(program.url() + ",shm"));
    other_ = job_->targets()[0];
    ours_ = job_->targets()[1];
  }

  std::optional<fc::job> job_;
  fc::node other_;
  fc::node ours_;
};

TEST_F(other_library, calls_with_numbers_and_memory_work) {
  EXPECT_EQ(call_with_numbers(other_), "ok");
  EXPECT_EQ(call_with_numbers_by_pointer(other_), "ok");
  EXPECT_EQ(call_with_memory(other_), "ok");
  EXPECT_EQ(call_with_fixed_class(other_), "ok") << "it says that it is the same everywhere";
  EXPECT_EQ(start_ping_pong(job_->host(), 50, other_), 50);
}

TEST_F(other_library, classes_are_refused_with_the_reason) {
  for (const auto call : {call_with_plain_class, call_with_variant_inside, call_with_string}) {
    EXPECT_EQ(call(ours_), "ok");
    EXPECT_THAT(call(other_),
                AllOf(HasSubstr("node 1"), HasSubstr("another standard library, libc++")));
  }
}

TEST_F(other_library, calls_from_there_are_refused_alike) {
  EXPECT_EQ(refused_between(other_, job_->host()), 0b1110000U);
  EXPECT_EQ(refused_between(other_, ours_), 0b1110000U);
  EXPECT_EQ(refused_between(ours_, other_), 0b1110000U);
  EXPECT_EQ(refused_between(other_, other_), 0U);
}

TEST_F(other_library, exceptions_arrive) {
  const auto e =
      farcall::test::thrown_by<fc::remote_error>([&] { fc::sync(other_, fc::fn<&throw_for>, 7); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->type_name(), "std::out_of_range");
  EXPECT_EQ(e->text(), "no 7");
}

} // namespace
} // namespace different
