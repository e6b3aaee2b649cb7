// SPDX-License-Identifier: Apache-2.0
#include "kernel_stack.hpp"

#include "test_kernels/library.hpp"

#include <farcall/native/register_call.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::veo::kernel_stack_test {
namespace {

using native::integer_registers;
using native::register_image;
using test::library;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Lt;

const char* const kernels = FARCALL_VEO_TEST_KERNELS_PLAIN;

std::uint64_t address_of(const void* place) { return reinterpret_cast<std::uint64_t>(place); }

register_image call_of(const void* code, void* stack_top = nullptr) {
  register_image image{};
  image.code = code;
  image.stack_top = stack_top;
  return image;
}

TEST(invoke, passes_and_returns_an_integer) {
  const library library(kernels);
  register_image image = call_of(library["same"]);
  image.integers[0] = 0xFEDCBA9876543210;
  native::invoke(image);
  EXPECT_EQ(image.integer_result, 0xFEDCBA9876543210);
  EXPECT_EQ(image.fault_signal, 0U);
}

TEST(invoke, passes_and_returns_a_real) {
  const library library(kernels);
  register_image image = call_of(library["same_real"]);
  image.floats[0] = std::bit_cast<std::uint64_t>(-2.5);
  image.floats_used = 1;
  native::invoke(image);
  EXPECT_EQ(std::bit_cast<double>(image.float_result), -2.5);
}

// Eight reals are in registers. A variadic function saves these only if al is not 0.
TEST(invoke, passes_reals_to_a_variadic_function) {
  const library library(kernels);
  const std::array<double, 3> on_stack = {256, 512, 1024};
  std::array<std::uint64_t, 3> words{};
  std::ranges::transform(on_stack, words.begin(),
                         [](double value) { return std::bit_cast<std::uint64_t>(value); });
  register_image image = call_of(library["sum_of_reals"]);
  image.integers[0] = 11;
  double value = 1;
  for (std::uint64_t& word : image.floats) {
    word = std::bit_cast<std::uint64_t>(value);
    value *= 2;
  }
  image.floats_used = 8;
  image.stack = words.data();
  image.stack_words = words.size();
  native::invoke(image);
  EXPECT_EQ(std::bit_cast<double>(image.float_result), 2047);
}

class stack_words : public ::testing::TestWithParam<std::size_t> {};

TEST_P(stack_words, are_in_order_on_either_stack) {
  const library library(kernels);
  const kernel_stack stack(std::size_t{1} << 20);
  for (void* top : {static_cast<void*>(nullptr), stack.top()}) {
    register_image image = call_of(library["mismatches"], top);
    image.integers[0] = integer_registers - 1 + GetParam();
    std::uint64_t value = 1;
    for (std::size_t index = 1; index < integer_registers; ++index, value += 3) {
      image.integers[index] = value;
    }
    std::vector<std::uint64_t> words(GetParam());
    for (std::uint64_t& word : words) {
      word = value;
      value += 3;
    }
    image.stack = words.data();
    image.stack_words = words.size();
    native::invoke(image);
    EXPECT_EQ(image.integer_result, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(invoke, stack_words, ::testing::Values(0, 1, 2, 7, 300, 5000));

class stack_top : public ::testing::TestWithParam<int> {};

TEST_P(stack_top, is_aligned_for_the_kernel) {
  const library library(kernels);
  const kernel_stack stack(std::size_t{1} << 16);
  const std::array<std::uint64_t, 3> words{};
  for (std::size_t count = 0; count <= words.size(); ++count) {
    register_image image =
        call_of(library["stack_misalignment"], static_cast<char*>(stack.top()) - GetParam());
    image.stack = words.data();
    image.stack_words = count;
    native::invoke(image);
    EXPECT_EQ(image.integer_result, 0U) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(invoke, stack_top, ::testing::Values(0, 1, 8, 24));

TEST(invoke, runs_the_kernel_on_the_stack_it_is_given) {
  const library library(kernels);
  const kernel_stack stack(std::size_t{1} << 16);
  register_image image = call_of(library["address_of_local"], stack.top());
  native::invoke(image);
  const std::uint64_t top = address_of(stack.top());
  EXPECT_THAT(image.integer_result, AllOf(Ge(top - stack.bytes()), Lt(top)));

  image = call_of(library["address_of_local"]);
  native::invoke(image);
  const std::uint64_t here = address_of(__builtin_frame_address(0));
  EXPECT_THAT(image.integer_result, AllOf(Ge(here - (1U << 20U)), Lt(here)));
}

TEST(invoke, has_space_for_deep_recursion) {
  const library library(kernels);
  const kernel_stack stack(std::size_t{128} << 20);
  register_image image = call_of(library["use_stack"], stack.top());
  image.integers[0] = (std::uint64_t{64} << 20) / 4096;
  native::invoke(image);
  EXPECT_EQ(image.integer_result, (64U << 20U) / 4096 + 1);
}

// A trace of a kernel shows its callers.
TEST(invoke, can_be_unwound) {
  const library library(kernels);
  const kernel_stack stack(std::size_t{1} << 20);
  for (void* top : {static_cast<void*>(nullptr), stack.top()}) {
    std::array<void*, 32> frames{};
    register_image image = call_of(library["frames_of"], top);
    image.integers[0] = address_of(frames.data());
    image.integers[1] = frames.size();
    native::invoke(image);
    const std::vector<void*> seen(frames.begin(), frames.begin() + image.integer_result);
    const auto invoke = std::ranges::find_if(seen, native::is_in_invoke);
    ASSERT_NE(invoke, seen.end());
    // Frames of main() and its callers follow.
    EXPECT_GT(seen.end() - invoke, 3);
  }
}

TEST(kernel_stack, is_usable_to_the_end_of_its_pages) {
  const kernel_stack stack(100000);
  EXPECT_GE(stack.bytes(), 100000U);
  EXPECT_LT(stack.bytes(), 100000U + 65536U);
  auto* const end = static_cast<volatile char*>(stack.top()) - stack.bytes();
  *end = 1;
  EXPECT_EQ(*end, 1);
}

TEST(kernel_stack, that_is_too_large_says_so) {
  EXPECT_THROW(kernel_stack(std::size_t{1} << 60), std::system_error);
  EXPECT_THROW(kernel_stack(~std::size_t{0}), std::system_error);
}

} // namespace
} // namespace farcall::veo::kernel_stack_test
