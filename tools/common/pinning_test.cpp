// SPDX-License-Identifier: Apache-2.0
#include "outcome.hpp"
#include "pinning.hpp"

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(pinning, a_list_is_written_as_ranges) {
  EXPECT_EQ(cpu_list_text({}), "");
  EXPECT_EQ(cpu_list_text({3}), "3");
  EXPECT_EQ(cpu_list_text({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(pinning, the_ends_are_different_cores_when_there_are_two) {
  const core_pair cores = choose_cores({}, {});
  EXPECT_EQ(cores.shared(), allowed_cpus().size() == 1);
}

TEST(pinning, a_requested_core_is_not_given_twice) {
  if (allowed_cpus().size() < 2) GTEST_SKIP() << "one processor";
  const int first = allowed_cpus().front();
  EXPECT_NE(choose_cores({}, first).host, first);
  EXPECT_NE(choose_cores(first, {}).target, first);
}

TEST(pinning, a_missing_core_is_a_usage_problem) {
  EXPECT_THROW((void)choose_cores(CPU_SETSIZE + 1, {}), usage_problem);
  EXPECT_THROW((void)choose_cores({}, -1), usage_problem);
}

TEST(pinning, a_pin_can_be_widened_temporarily) {
  const std::vector<int> all = allowed_cpus();
  const scoped_pin narrow{all.front()};
  {
    const scoped_pin wide{all};
    EXPECT_EQ(allowed_cpus(), all);
  }
  EXPECT_EQ(allowed_cpus(), std::vector<int>{all.front()});
}

TEST(pinning, binding_to_a_missing_processor_fails) {
  EXPECT_THROW(pin_this_thread(CPU_SETSIZE - 1), failed_run);
}

TEST(pinning, a_scoped_pin_gives_the_cores_back) {
  const std::vector<int> before = allowed_cpus();
  {
    const scoped_pin pin{before.back()};
    EXPECT_EQ(allowed_cpus(), std::vector<int>{before.back()});
  }
  EXPECT_EQ(allowed_cpus(), before);
}

} // namespace
} // namespace farcall::tool
