// SPDX-License-Identifier: Apache-2.0
#include "gzip.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

namespace farcall::tool {
namespace {

std::string inflated(std::string compressed) {
  std::string text(1 << 22, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(gzip, gives_back_what_it_was_given) {
  EXPECT_EQ(inflated(gzip_compressed("")), "");
  std::string text; // longer than one block of output
  for (unsigned i = 0; text.size() < 1'000'000; i = i * 1664525U + 1013904223U)
    text += static_cast<char>(i >> 24U);
  EXPECT_EQ(inflated(gzip_compressed(text)), text);
}

TEST(gzip, makes_text_smaller_and_is_the_same_each_time) {
  const std::string text(100'000, 'x');
  EXPECT_LT(gzip_compressed(text).size(), 1000U);
  EXPECT_EQ(gzip_compressed(text), gzip_compressed(text));
}

} // namespace
} // namespace farcall::tool
