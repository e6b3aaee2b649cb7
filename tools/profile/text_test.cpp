#include "text.hpp"

#include <tools/common/outcome.hpp>

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(profile_text, keeps_what_is_text) {
  EXPECT_EQ(valid_text("f(int) µ – 漢 😀"), "f(int) µ – 漢 😀");
  EXPECT_EQ(valid_text(""), "");
}

TEST(profile_text, replaces_what_is_none) {
  EXPECT_EQ(valid_text("a\nb\tc\x7f"), "a�b�c�");
  EXPECT_EQ(valid_text(std::string_view("\0x", 2)), "�x");
  EXPECT_EQ(valid_text("\xff!"), "�!");              // never a first byte
  EXPECT_EQ(valid_text("\xc0\xaf"), "��");           // longer than needed
  EXPECT_EQ(valid_text("\xe0\x80\xaf"), "���");      // the same
  EXPECT_EQ(valid_text("\xed\xa0\x80"), "�");        // half of a pair
  EXPECT_EQ(valid_text("\xf4\x90\x80\x80"), "����"); // beyond the last character
  EXPECT_EQ(valid_text("\xef\xbf\xbf"), "�");        // none in XML
  EXPECT_EQ(valid_text("\xc2\x9b"), "�");            // starts commands of terminals
  EXPECT_EQ(valid_text("ab\xe6\xbc"), "ab��");       // cut off
}

TEST(profile_text, escapes_what_means_something_in_xml) {
  EXPECT_EQ(xml_text("a<b>&\"\x01"), "a&lt;b&gt;&amp;&quot;�");
}

TEST(profile_text, names_processes_and_threads) {
  profile_thread thread{.process = 12, .thread = 13, .node = 2, .name = "w", .program = "/bin/x"};
  EXPECT_EQ(process_name(thread), "node 2: x (12)");
  EXPECT_EQ(thread_name(thread), "w (13)");
  thread.node = no_node;
  thread.name.clear();
  thread.program.clear();
  EXPECT_EQ(process_name(thread), "process (12)");
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
