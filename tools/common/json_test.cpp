// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"

#include <array>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(json, scalars_are_written_as_readers_expect_them) {
  EXPECT_EQ(json().dump(), "null");
  EXPECT_EQ(json(nullptr).dump(), "null");
  EXPECT_EQ(json(true).dump(), "true");
  EXPECT_EQ(json(-3).dump(), "-3");
  EXPECT_EQ(json(std::uint64_t{18446744073709551615U}).dump(), "18446744073709551615");
  EXPECT_EQ(json("text").dump(), "\"text\"");
  EXPECT_EQ(json(std::string("text")).dump(), "\"text\"");
}

TEST(json, numbers_keep_their_value_and_a_fraction) {
  EXPECT_EQ(json(1.23).dump(), "1.23");
  EXPECT_EQ(json(5.0).dump(), "5.0");
  EXPECT_EQ(json(100000.0).dump(), "100000.0");
  EXPECT_EQ(json(0.0).dump(), "0.0");
  EXPECT_EQ(json(0.1 + 0.2).dump(), "0.30000000000000004");
  EXPECT_EQ(json(1e20).dump(), "1e+20");
  EXPECT_EQ(json(1e-7).dump(), "1e-07");
}

TEST(json, infinities_and_nan_are_null) {
  EXPECT_EQ(json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(json, texts_are_escaped) {
  EXPECT_EQ(json("a\"b\\c\nd\x01").dump(), R"("a\"b\\c\nd\u0001")");
  EXPECT_EQ(json("µs").dump(), "\"µs\"");
}

TEST(json, invalid_utf8_is_replaced) {
  // An invalid first byte, a truncated sequence, and half of a surrogate pair.
  EXPECT_EQ(json("a\xFF"
                 "b")
                .dump(),
            "\"a\uFFFDb\"");
  EXPECT_EQ(json("\xC3").dump(), "\"\uFFFD\"");
  EXPECT_EQ(json("\xED\xA0\x80").dump(), "\"\uFFFD\uFFFD\uFFFD\"");
  json document;
  document["\xFF"] = 1;
  EXPECT_EQ(document.dump(), "{\"\uFFFD\":1}");
}

TEST(json, pairs_that_begin_with_a_text_make_an_object) {
  const json document{{"b", 1}, {"a", {{"x", "y"}}}};
  EXPECT_EQ(document.dump(), R"({"b":1,"a":{"x":"y"}})");
  EXPECT_EQ(document.at("a").at("x"), json("y"));
  EXPECT_THROW((void)document.at("c"), std::out_of_range);
}

TEST(json, other_lists_make_an_array) {
  EXPECT_EQ((json{1, "two", nullptr}).dump(), R"([1,"two",null])");
  EXPECT_EQ(json(std::vector<std::vector<std::string>>{{"a"}, {}}).dump(), R"([["a"],[]])");
  EXPECT_EQ(json(std::array{1.5, 2.5}).dump(), "[1.5,2.5]");
}

TEST(json, members_are_made_replaced_and_erased_in_their_order) {
  json document;
  document["first"] = 1;
  document["second"] = {{"x", 2}};
  document["first"] = 3;
  EXPECT_EQ(document.dump(), R"({"first":3,"second":{"x":2}})");
  document.erase("first");
  document.erase("missing");
  EXPECT_EQ(document.dump(), R"({"second":{"x":2}})");
}

TEST(json, an_array_grows) {
  json rows = json::array();
  EXPECT_EQ(rows.dump(2), "[]");
  rows.push_back({{"bytes", 8}});
  rows.push_back(2);
  EXPECT_EQ(rows.dump(), R"([{"bytes":8},2])");
}

TEST(json, takes_text_that_is_json_already) {
  json document{{"a", 1}};
  document["times"] = json::from_text("[1.5,[2]]");
  EXPECT_EQ(document.dump(), R"({"a":1,"times":[1.5,[2]]})");
}

TEST(json, people_can_read_it_when_it_is_indented) {
  const json document{{"a", 1}, {"b", {{"c", {1, 2}}}}};
  EXPECT_EQ(document.dump(2),
            "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [\n      1,\n      2\n    ]\n  }\n}");
}

} // namespace
} // namespace farcall::tool
