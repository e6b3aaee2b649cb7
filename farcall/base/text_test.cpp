// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/text.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace farcall::text_test {
namespace {

TEST(text, keeps_valid_text) {
  EXPECT_EQ(valid_text("f(int) µ – 漢 😀"), "f(int) µ – 漢 😀");
  EXPECT_EQ(valid_text(""), "");
}

TEST(text, replaces_invalid_bytes) {
  EXPECT_EQ(valid_text("a\nb\tc\x7f"), "a�b�c�");
  EXPECT_EQ(valid_text(std::string_view("\0x", 2)), "�x");
  EXPECT_EQ(valid_text("\xff!"), "�!");              // never valid as a first byte
  EXPECT_EQ(valid_text("\xc0\xaf"), "��");           // overlong encoding
  EXPECT_EQ(valid_text("\xe0\x80\xaf"), "���");      // overlong encoding
  EXPECT_EQ(valid_text("\xed\xa0\x80"), "�");        // a surrogate
  EXPECT_EQ(valid_text("\xf4\x90\x80\x80"), "����"); // beyond the last character
  EXPECT_EQ(valid_text("\xef\xbf\xbf"), "�");        // not allowed in XML
  EXPECT_EQ(valid_text("\xc2\x9b"), "�");            // starts terminal commands
  EXPECT_EQ(valid_text("ab\xe6\xbc"), "ab��");       // incomplete
}

TEST(text, escapes_special_characters_of_xml) {
  EXPECT_EQ(xml_text("a<b>&\"c\"'d'\x01"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;�");
}

TEST(text, keeps_ends_of_lines_where_they_are_wanted) {
  EXPECT_EQ(valid_text("a\nb\r", line_ends::kept), "a\nb�");
  EXPECT_EQ(xml_text("<\n", line_ends::kept), "&lt;\n");
}

TEST(hexadecimal, has_two_digits_for_each_byte) {
  EXPECT_EQ(hexadecimal({}), "");
  const std::array bytes{std::byte{0}, std::byte{0x0f}, std::byte{0xa9}, std::byte{0xff}};
  EXPECT_EQ(hexadecimal(bytes), "000fa9ff");
}

TEST(quoted_text, escapes_quotes_and_backslashes) {
  EXPECT_EQ(quoted_text("a\"b\\c\n"), "\"a\\\"b\\\\c\xEF\xBF\xBD\"");
  EXPECT_EQ(quoted_text(""), "\"\"");
}

} // namespace
} // namespace farcall::text_test
