// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/files/attach.hpp>
#include <farcall/files/file_view.hpp>

#include <tests/jobs.hpp>

#include <gtest/gtest.h>

namespace farcall::test::attach_test {
namespace {

using files::chosen_forwarding;
using files::forwarding;

TEST(forwarding_of_files, depends_on_whether_the_files_are_the_same) {
  EXPECT_EQ(chosen_forwarding(true, true), forwarding::nothing);
  EXPECT_EQ(chosen_forwarding(true, false), forwarding::descriptors);
  EXPECT_EQ(chosen_forwarding(false, false), forwarding::data);
}

TEST(forwarding_of_files, is_what_the_user_says) {
  {
    const scoped_variable forward("FARCALL_IO_FORWARD", "always");
    EXPECT_EQ(chosen_forwarding(true, true), forwarding::data);
  }
  {
    const scoped_variable forward("FARCALL_IO_FORWARD", "descriptors");
    EXPECT_EQ(chosen_forwarding(true, true), forwarding::descriptors);
    EXPECT_EQ(chosen_forwarding(false, false), forwarding::data) << "none can get there";
  }
  {
    const scoped_variable forward("FARCALL_IO_FORWARD", "never");
    EXPECT_EQ(chosen_forwarding(false, false), forwarding::nothing);
  }
  const scoped_variable forward("FARCALL_IO_FORWARD", "sometimes");
  EXPECT_THROW((void)chosen_forwarding(true, true), setting_error);
}

TEST(views_of_files, are_told_as_text) {
  const files::file_view mine = files::own_file_view();
  EXPECT_EQ(files::parse_file_view(files::text_of(mine)), mine);
  EXPECT_NE(mine.root_inode, 0U);
  EXPECT_EQ(files::parse_file_view("1/2/3/4"), (files::file_view{1, 2, 3, 4}));
  for (const char* text :
       {"", "1", "1/2/3", "1/2/3/", "1/2/3/4/5", "1/2/3/4 ", "a/2/3/4", "-1/2/3/4"})
    EXPECT_THROW((void)files::parse_file_view(text), error) << text;
}

} // namespace
} // namespace farcall::test::attach_test
