// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

namespace veo_test {
namespace {

// Stack arguments: veo_args_set_stack().

using byte_vector = std::vector<unsigned char>;

std::uint64_t sum_of(const byte_vector& v) {
  return std::accumulate(v.begin(), v.end(), std::uint64_t{0});
}

byte_vector complement_of(byte_vector v) {
  for (unsigned char& c : v)
    c = static_cast<unsigned char>(~c);
  return v;
}

TEST(stack_argument, goes_in) {
  process p;
  for (std::size_t size = 1; size <= 70; ++size) {
    const byte_vector sent = content(size, size);
    ASSERT_EQ(p.call("sum_bytes", in(sent.data(), size), std::uint64_t{size}), sum_of(sent))
        << size;
  }
}

TEST(stack_argument, that_goes_in_does_not_come_back) {
  process p;
  const byte_vector before = content(1000, 1);
  const byte_vector sent = before;
  EXPECT_EQ(p.call("complement_bytes", in(sent.data(), sent.size()), sent.size()), 1000U);
  EXPECT_EQ(sent, before);
}

TEST(stack_argument, comes_out) {
  process p;
  for (std::size_t size = 1; size <= 70; ++size) {
    // The byte behind the buffer must not change.
    byte_vector got(size + 1, 0xEE);
    ASSERT_EQ(p.call("fill_bytes", out(got.data(), size), std::uint64_t{size}, std::uint8_t{200}),
              size);
    byte_vector expected(size + 1, 0xEE);
    for (std::size_t i = 0; i < size; ++i)
      expected[i] = static_cast<unsigned char>(200 + i);
    ASSERT_EQ(got, expected) << size;
  }
}

TEST(stack_argument, goes_in_and_comes_out) {
  process p;
  for (std::size_t size = 1; size <= 70; ++size) {
    byte_vector bytes = content(size, size);
    const byte_vector expected = complement_of(bytes);
    ASSERT_EQ(p.call("complement_bytes", in_out(bytes.data(), size), std::uint64_t{size}), size);
    ASSERT_EQ(bytes, expected) << size;
  }
}

TEST(stack_argument, several_of_odd_sizes) {
  process p;
  for (std::size_t size = 1; size <= 40; ++size) {
    const byte_vector from = content(size, 5);
    byte_vector to(size, 0);
    ASSERT_EQ(
        p.call("copy_bytes", out(to.data(), size), in(from.data(), size), std::uint64_t{size}),
        size);
    ASSERT_EQ(to, from);
  }
}

TEST(stack_argument, is_aligned_to_eight_bytes) {
  process p;
  byte_vector bytes(100, 1);
  for (std::size_t size = 1; size <= 33; ++size) {
    EXPECT_EQ(p.call("is_aligned", in(bytes.data() + 1, size), std::uint64_t{8}), 1U) << size;
    EXPECT_EQ(p.call("is_aligned", out(bytes.data() + 1, size), std::uint64_t{8}), 1U) << size;
  }
}

TEST(stack_argument, can_have_no_bytes) {
  process p;
  byte_vector bytes(1, 7);
  EXPECT_EQ(p.call("sum_bytes", in(bytes.data(), 0), std::uint64_t{0}), 0U);
  EXPECT_EQ(p.call("fill_bytes", out(bytes.data(), 0), std::uint64_t{0}, std::uint8_t{1}), 0U);
  EXPECT_EQ(bytes[0], 7);
}

TEST(stack_argument, is_read_when_the_call_is_submitted) {
  process p;
  veo_thr_ctxt* const context = p.open();
  gate g(p);
  const std::uint64_t waiting = submit(context, p.symbol("wait_at"), g.address());
  // One buffer fits into a message, the other does not.
  byte_vector small(8, 1);
  byte_vector large(std::size_t{3} << 20, 1);
  const std::uint64_t first =
      submit(context, p.symbol("sum_bytes"), in(small.data(), small.size()), small.size());
  const std::uint64_t second =
      submit(context, p.symbol("sum_bytes"), in(large.data(), large.size()), large.size());
  std::ranges::fill(small, 0xFF);
  std::ranges::fill(large, 0xFF);
  g.open();
  EXPECT_EQ(collect(context, waiting), ok(1));
  EXPECT_EQ(collect(context, first), ok(8));
  EXPECT_EQ(collect(context, second), ok(large.size()));
}

TEST(stack_argument, only_its_address_is_kept_when_it_is_set) {
  process p;
  std::uint64_t value = 1;
  const arguments a(in(&value, 1));
  for (std::uint64_t i = 10; i < 20; ++i) {
    value = i;
    EXPECT_EQ(p.call_with(p.symbol("load_word"), a), i);
  }
}

TEST(stack_argument, comes_out_before_the_result_can_be_collected) {
  process p;
  veo_thr_ctxt* const context = p.open();
  std::array<std::uint8_t, 100> buffers[20];
  std::uint64_t requests[20];
  for (unsigned i = 0; i < 20; ++i) {
    buffers[i].fill(0);
    requests[i] = submit(context, p.symbol("fill_bytes"), out(buffers[i].data(), 100),
                         std::uint64_t{100}, static_cast<std::uint8_t>(i));
  }
  for (unsigned i = 20; i-- > 0;) {
    ASSERT_EQ(collect(context, requests[i]), ok(100));
    EXPECT_EQ(buffers[i][0], i);
    EXPECT_EQ(buffers[i][99], i + 99);
  }
}

TEST(stack_argument, large_and_of_odd_sizes) {
  process p;
  for (const std::size_t size :
       {(std::size_t{1} << 16) - 1, (std::size_t{4} << 20) + 5, (std::size_t{31} << 20) + 7}) {
    byte_vector bytes = content(size, size);
    const std::uint64_t sum = sum_of(bytes);
    ASSERT_EQ(p.call("sum_bytes", in(bytes.data(), size), std::uint64_t{size}), sum) << size;
    const byte_vector expected = complement_of(bytes);
    ASSERT_EQ(p.call("complement_bytes", in_out(bytes.data(), size), std::uint64_t{size}), size);
    ASSERT_TRUE(bytes == expected) << size;
  }
}

TEST(stack_argument, can_send_64_mib_and_more) {
  process p;
  const byte_vector bytes((std::size_t{64} << 20) + 3, 3);
  EXPECT_EQ(p.call("sum_bytes", in(bytes.data(), bytes.size()), bytes.size()), 3 * bytes.size());
}

TEST(stack_argument, can_return_64_mib_and_more) {
  process p;
  byte_vector bytes((std::size_t{64} << 20) + 3, 3);
  ASSERT_EQ(p.call("fill_bytes", out(bytes.data(), bytes.size()), bytes.size(), std::uint8_t{1}),
            bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 4095)
    ASSERT_EQ(bytes[i], static_cast<unsigned char>(1 + i));
  EXPECT_EQ(bytes.back(), static_cast<unsigned char>(bytes.size()));
}

TEST(stack_argument, copies_64_mib_both_ways_on_any_context) {
  process p;
  veo_thr_ctxt* const context = p.open();
  byte_vector bytes((std::size_t{70} << 20) + 1, 0x0F);
  ASSERT_EQ(
      call(context, p.symbol("complement_bytes"), in_out(bytes.data(), bytes.size()), bytes.size()),
      ok(bytes.size()));
  EXPECT_TRUE(std::ranges::all_of(bytes, [](unsigned char c) { return c == 0xF0; }));
}

TEST(stack_argument, two_of_40_mib_in_one_call) {
  process p;
  const byte_vector from = content(std::size_t{40} << 20, 9);
  byte_vector to(from.size(), 0);
  ASSERT_EQ(
      p.call("copy_bytes", out(to.data(), to.size()), in(from.data(), from.size()), from.size()),
      from.size());
  EXPECT_TRUE(to == from);
}

TEST(stack_argument, many_large_ones_in_a_row) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const byte_vector bytes(std::size_t{8} << 20, 1);
  std::vector<std::uint64_t> requests;
  for (int i = 0; i < 30; ++i)
    requests.push_back(
        submit(context, p.symbol("sum_bytes"), in(bytes.data(), bytes.size()), bytes.size()));
  for (const std::uint64_t r : requests)
    EXPECT_EQ(collect(context, r), ok(bytes.size()));
}

} // namespace
} // namespace veo_test
