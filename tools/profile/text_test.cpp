// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <tools/common/outcome.hpp>

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(profile_text, names_processes_and_threads) {
  profile_thread thread{.process = 12, .thread = 13, .node = 2, .name = "w", .program = "/bin/x"};
  EXPECT_EQ(process_name(thread), "node 2: x (12)");
  EXPECT_EQ(thread_name(thread), "w (13)");
  thread.node = no_node;
  thread.name.clear();
  thread.program.clear();
  EXPECT_EQ(process_name(thread), "process (12)");
  thread.machine = "ibiza";
  EXPECT_EQ(process_name(thread), "process (12) on ibiza");
  EXPECT_EQ(thread_name(thread), "thread (13)");
}

TEST(profile_text, shares_of_nothing_are_nothing) {
  EXPECT_EQ(percent(0, 0), "0.0");
  EXPECT_EQ(percent(1, 3), "33.3");
}

TEST(profile_text, says_that_a_disk_is_full) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"),
                                                             std::fclose);
  ASSERT_TRUE(full);
  EXPECT_THAT([&] { write_text(full.get(), "x", "out.svg"); },
              ThrowsMessage<failed_run>(HasSubstr("cannot write out.svg: No space left")));
}

} // namespace
} // namespace farcall::tool
