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

TEST(pinning, the_core_asked_for_is_not_given_to_the_other_end) {
  if (allowed_cpus().size() < 2) GTEST_SKIP() << "one processor";
  const int first = allowed_cpus().front();
  EXPECT_NE(choose_cores({}, first).host, first);
  EXPECT_NE(choose_cores(first, {}).target, first);
}

TEST(pinning, a_core_that_is_not_there_is_a_usage_problem) {
  EXPECT_THROW((void)choose_cores(CPU_SETSIZE + 1, {}), usage_problem);
  EXPECT_THROW((void)choose_cores({}, -1), usage_problem);
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
