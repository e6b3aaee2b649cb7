// SPDX-License-Identifier: Apache-2.0
#include "helper_program.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace farcall::test::helper_program_test {
namespace {

tool::measured output_of(const std::string& script) {
  tool::rival_settings settings;
  settings.batches = 2;
  return tool::run_helper({"/bin/sh", "-c", script}, settings);
}

TEST(helper_program, reads_a_figure_of_each_batch) {
  const tool::measured m = output_of("echo library 1.0; echo 10.5; echo a remark; echo 11");
  EXPECT_EQ(m.failure, "");
  EXPECT_EQ(m.remark, "library 1.0");
  EXPECT_EQ(m.samples, (std::vector<double>{10.5, 11}));
}

TEST(helper_program, with_other_batches_has_no_figures) {
  const tool::measured m = output_of("echo library 1.0; echo 10.5");
  EXPECT_EQ(m.failure, "its program printed 1 figures instead of 2");
  EXPECT_TRUE(m.samples.empty());
}

TEST(helper_program, that_fails_names_the_reason) {
  const tool::measured m = output_of("printf -- '-----\\nthe reason\\n' >&2; exit 3");
  EXPECT_EQ(m.failure, "sh ended with exit status 3: the reason");
}

TEST(helper_program, that_is_missing_names_the_library) {
  const std::string why = tool::why_missing(tool::program_beside("none"), "libnone-dev");
  EXPECT_NE(why.find("libnone-dev was not found"), std::string::npos) << why;
  EXPECT_EQ(tool::why_missing("/bin/sh", "libnone-dev"), "");
}

} // namespace
} // namespace farcall::test::helper_program_test
