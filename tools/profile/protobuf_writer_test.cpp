// SPDX-License-Identifier: Apache-2.0
#include "protobuf_writer.hpp"

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(protobuf_writer, writes_the_encodings_of_the_specification) {
  protobuf_writer writer;
  writer.number(1, 150); // example of the documentation: 08 96 01
  writer.bytes(2, "testing");
  writer.numbers(6, {3, 270, 86942}); // another one: 32 06 03 8e 02 9e a7 05
  writer.number(3, 0);
  writer.numbers(4, {});
  EXPECT_EQ(writer.bytes(), "\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05");
}

TEST(protobuf_writer, writes_negative_numbers_in_ten_bytes) {
  protobuf_writer writer;
  writer.signed_number(1, -2);
  EXPECT_EQ(writer.bytes(), "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(protobuf_writer, nests_messages_and_has_fields_above_15) {
  protobuf_writer inner;
  inner.number(1, 1);
  protobuf_writer outer;
  outer.message(16, inner);
  EXPECT_EQ(outer.bytes(), "\x82\x01\x02\x08\x01");
}

} // namespace
} // namespace farcall::tool
