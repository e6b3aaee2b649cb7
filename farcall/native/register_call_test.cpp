// SPDX-License-Identifier: Apache-2.0
#include <farcall/native/arguments.hpp>
#include <farcall/native/register_call.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <execinfo.h>

namespace farcall::test::register_call_test {

/// A function with more reals and integers than registers, and with reals on the stack between
/// integers.
double weighted(float a, double b, double c, double d, double e, double f, double g, double h,
                float i, int j, std::int8_t k, std::uint8_t l, std::int64_t m, std::uint32_t n,
                bool o, std::int16_t p, std::uint16_t q, std::int8_t r, double s, std::int32_t t) {
  const std::array<double, 20> values = {a,
                                         b,
                                         c,
                                         d,
                                         e,
                                         f,
                                         g,
                                         h,
                                         i,
                                         static_cast<double>(j),
                                         static_cast<double>(k),
                                         static_cast<double>(l),
                                         static_cast<double>(m),
                                         static_cast<double>(n),
                                         o ? 1.0 : 0.0,
                                         static_cast<double>(p),
                                         static_cast<double>(q),
                                         static_cast<double>(r),
                                         s,
                                         static_cast<double>(t)};
  double sum = 0;
  for (std::size_t index = 0; index < values.size(); ++index)
    sum += static_cast<double>(index + 1) * values[index];
  return sum;
}

std::int32_t throws(std::int32_t value) { throw std::out_of_range(std::to_string(value)); }

std::int32_t trace(void** frames, std::int32_t most) { return ::backtrace(frames, most); }

namespace {

using native::argument_placer;
using native::register_image;
using native::result_word;
using native::value_class;
using native::widened;

template <class F>
register_image image_of(F* code) {
  register_image image{};
  image.code = reinterpret_cast<const void*>(code);
  image.passes_exceptions = 1;
  return image;
}

std::uint64_t word_of(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t word_of(double value) { return std::bit_cast<std::uint64_t>(value); }

TEST(widened_words, have_the_bits_of_their_class) {
  constexpr std::uint64_t word = 0x1122'3344'8586'8788;
  EXPECT_EQ(widened(value_class::sint8, word), 0xffff'ffff'ffff'ff88);
  EXPECT_EQ(widened(value_class::uint8, word), 0x88U);
  EXPECT_EQ(widened(value_class::sint16, word), 0xffff'ffff'ffff'8788);
  EXPECT_EQ(widened(value_class::uint16, word), 0x8788U);
  EXPECT_EQ(widened(value_class::sint32, word), 0xffff'ffff'8586'8788);
  EXPECT_EQ(widened(value_class::uint32, word), 0x8586'8788U);
  EXPECT_EQ(widened(value_class::real32, word), 0x8586'8788U);
  EXPECT_EQ(widened(value_class::real64, word), word);
  EXPECT_EQ(widened(value_class::integer64, word), word);
  EXPECT_EQ(widened(value_class::boolean, word), 1U);
  EXPECT_EQ(widened(value_class::boolean, 0x100), 0U);
}

TEST(register_calls, pass_arguments_in_registers_and_on_the_stack) {
  ASSERT_TRUE(native::has_register_calls);
  register_image image = image_of(&weighted);
  std::array<std::uint64_t, 20> stack{};
  argument_placer placer(image, stack.data());
  placer.add(value_class::real32, word_of(1.5F));
  for (int i = 2; i <= 8; ++i)
    placer.add(value_class::real64, word_of(static_cast<double>(i)));
  placer.add(value_class::real32, word_of(9.25F));
  // Bits that do not belong to a value are set here, and have no effect.
  constexpr std::uint64_t others = 0xabcd'abcd'0000'0000;
  placer.add(value_class::sint32, others | static_cast<std::uint32_t>(-10));
  placer.add(value_class::sint8, others | 0xff00U | static_cast<std::uint8_t>(-11));
  placer.add(value_class::uint8, others | 0xff00U | 212U);
  placer.add(value_class::integer64, static_cast<std::uint64_t>(-13'000'000'000));
  placer.add(value_class::uint32, others | 4'000'000'000U);
  placer.add(value_class::boolean, others | 1U);
  placer.add(value_class::sint16, others | 0xf'0000U | static_cast<std::uint16_t>(-16));
  placer.add(value_class::uint16, others | 0xf'0000U | 60'017U);
  placer.add(value_class::sint8, others | static_cast<std::uint8_t>(-18));
  placer.add(value_class::real64, word_of(19.5));
  placer.add(value_class::sint32, others | static_cast<std::uint32_t>(-20));
  placer.finish();
  native::invoke(image);
  EXPECT_EQ(std::bit_cast<double>(result_word(value_class::real64, image)),
            weighted(1.5F, 2, 3, 4, 5, 6, 7, 8, 9.25F, -10, -11, 212, -13'000'000'000,
                     4'000'000'000U, true, -16, 60'017, -18, 19.5, -20));
}

TEST(register_calls, let_exceptions_pass) {
  register_image image = image_of(&throws);
  for (int i = 0; i < 3; ++i) {
    argument_placer placer(image, nullptr);
    placer.add(value_class::sint32, 7);
    placer.finish();
    EXPECT_EQ(text_thrown_by<std::out_of_range>([&] { native::invoke(image); }), "7");
  }
}

TEST(register_calls, that_pass_no_exceptions_end_the_process) {
  register_image image = image_of(&throws);
  image.passes_exceptions = 0;
  EXPECT_DEATH(native::invoke(image), "");
}

TEST(register_calls, show_their_callers_in_traces) {
  std::array<void*, 64> frames{};
  register_image image = image_of(&trace);
  argument_placer placer(image, nullptr);
  placer.add(value_class::integer64, reinterpret_cast<std::uint64_t>(frames.data()));
  placer.add(value_class::sint32, frames.size());
  placer.finish();
  native::invoke(image);
  // The trace contains trace(), the call, this test and main().
  EXPECT_GT(static_cast<std::int32_t>(result_word(value_class::sint32, image)), 4);
}

} // namespace
} // namespace farcall::test::register_call_test
