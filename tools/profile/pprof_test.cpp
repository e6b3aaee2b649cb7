// SPDX-License-Identifier: Apache-2.0
#include "pprof.hpp"

#include "example_profile.hpp"
#include "many_stacks.hpp"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// formats_test.py checks the messages' contents.
TEST(pprof, begins_with_the_types_of_its_values) {
  // samples/count, then cpu/nanoseconds; their texts come after "" and five label names.
  EXPECT_THAT(pprof_protobuf({}), StartsWith("\x0a\x04\x08\x06\x10\x07\x0a\x04\x08\x08\x10\x09"));
}

TEST(pprof, merges_inlined_functions_into_one_location) {
  profile seen = example_profile();
  seen.samples.erase(seen.samples.begin(), seen.samples.begin() + 3);
  seen.samples.resize(2);
  // The stack is main > solve > axpy (inlined): location 1 is axpy in solve, location 2 is main.
  EXPECT_THAT(pprof_protobuf(seen), HasSubstr(std::string("\x0a\x02\x01\x02\x12", 5)));
}

TEST(pprof, takes_many_stacks) {
  EXPECT_THAT(pprof_protobuf(many_stacks(20'000)), HasSubstr("function19999"));
}

TEST(pprof, refuses_a_damaged_profile) {
  profile seen = example_profile();
  seen.stacks[0].frame = 7;
  EXPECT_THROW((void)pprof_protobuf(seen), std::invalid_argument);
}

} // namespace
} // namespace farcall::tool
