// SPDX-License-Identifier: Apache-2.0
#include "pointed_functions.hpp"

#include <farcall/am/message.hpp>
#include <farcall/call/program_image.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::tool {

/// Function of this program whose name is searched.
int pointed_function_of_test(int number) { return number + 1; }

namespace {

TEST(pointed_functions, have_the_names_in_the_program) {
  const auto offset = program_image::instance().offset_of(
      reinterpret_cast<any_function>(&pointed_function_of_test));
  ASSERT_TRUE(offset.has_value());
  const auto handle = static_cast<std::uint32_t>(*offset);
  job_sample::process p;
  p.number = ::getpid();
  p.counts.functions = {"PFiiE", "5solve"};
  const auto key = std::uint64_t{am::first_user_key};
  const std::uint64_t with_handle = std::uint64_t{handle} << 32;
  // The handler of a pointer, a handler without a handle, another handler, and a number that the
  // receiver has assigned.
  p.running = {{with_handle | key, 5},
               {key, 1},
               {with_handle | (key + 1), 1},
               {std::uint64_t{0x8000'0001} << 32 | key, 1}};
  pointed_functions names;
  names.add_names(p);
  ASSERT_EQ(p.counts.named.size(), 1U);
  EXPECT_EQ(p.counts.named[0].name, "farcall::tool::pointed_function_of_test(int)");
  EXPECT_EQ(handler_name(p.counts, am::first_user_key, handle), p.counts.named[0].name);
}

TEST(pointed_functions, have_no_names_if_the_program_is_gone) {
  job_sample::process p;
  p.number = 0;
  p.counts.functions = {"PFiiE"};
  p.running = {{std::uint64_t{64} << 32 | am::first_user_key, 1}};
  pointed_functions names;
  names.add_names(p);
  EXPECT_TRUE(p.counts.named.empty());
}

} // namespace
} // namespace farcall::tool
