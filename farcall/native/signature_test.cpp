// SPDX-License-Identifier: Apache-2.0
#include <farcall/native/signature.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace farcall::test::signature_test {
namespace {

using native::parameter;
using native::passing;
using native::signature;
using native::signature_error;
using native::value_class;
using ::testing::HasSubstr;

bool is(const parameter& p, value_class kind, passing way) {
  return p.kind == kind && p.way == way;
}

TEST(signature, has_a_class_for_each_letter) {
  const signature& s = signature::of("v(bBhHiIlLqQnNfd?p)");
  EXPECT_EQ(s.result, value_class::none);
  EXPECT_FALSE(s.has_buffers);
  const std::vector<value_class> expected = {
      value_class::sint8,     value_class::uint8,     value_class::sint16,
      value_class::uint16,    value_class::sint32,    value_class::uint32,
      value_class::integer64, value_class::integer64, value_class::integer64,
      value_class::integer64, value_class::integer64, value_class::integer64,
      value_class::real32,    value_class::real64,    value_class::boolean,
      value_class::integer64};
  ASSERT_EQ(s.parameters.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(is(s.parameters[i], expected[i], passing::value)) << i;
}

TEST(signature, tells_buffers_from_values) {
  const signature& s = signature::of("f(sox)");
  EXPECT_EQ(s.result, value_class::real32);
  EXPECT_TRUE(s.has_buffers);
  ASSERT_EQ(s.parameters.size(), 3U);
  EXPECT_TRUE(is(s.parameters[0], value_class::integer64, passing::in));
  EXPECT_TRUE(is(s.parameters[1], value_class::integer64, passing::out));
  EXPECT_TRUE(is(s.parameters[2], value_class::integer64, passing::in_out));
}

TEST(signature, is_one_object_for_one_text) {
  const signature& s = signature::of("d(dd)");
  EXPECT_EQ(&signature::of("d(dd)"), &s);
  EXPECT_NE(&signature::of("d(d d)"), &s);
  EXPECT_EQ(s.text, "d(dd)");
}

TEST(signature, has_at_most_127_parameters) {
  EXPECT_EQ(signature::of("v(" + std::string(127, 'i') + ")").parameters.size(), 127U);
  EXPECT_THAT(text_thrown_by<signature_error>(
                  [] { (void)signature::of("v(" + std::string(128, 'i') + ")"); }),
              HasSubstr("more than 127"));
}

TEST(signature, that_is_wrong_names_the_letter) {
  EXPECT_EQ(text_thrown_by<signature_error>([] { (void)signature::of("d(dy)"); }),
            "the signature 'd(dy)' is wrong at letter 4, 'y': the type of a parameter is one of "
            "bBhHiIlLqQnN (integers), f, d, ? and p, or one of sox (buffers); ')' is at the end");
  EXPECT_EQ(text_thrown_by<signature_error>([] { (void)signature::of("d[d]"); }),
            "the signature 'd[d]' is wrong at letter 2, '[': expected is '(', as in \"d(dpl)\"");
}

} // namespace
} // namespace farcall::test::signature_test
