// SPDX-License-Identifier: Apache-2.0
#include "region_call.hpp"

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::openmp::region_call_test {
namespace {

std::vector<std::uint64_t> received;

std::uint64_t code_of(auto* function) { return reinterpret_cast<std::uintptr_t>(function); }

template <std::size_t... I>
void take(decltype(std::uint64_t{I})... words) {
  received = {words...};
}

template <std::size_t... I>
std::uint64_t code_with(std::index_sequence<I...> /*count*/) {
  return code_of(&take<I...>);
}

template <std::size_t Count>
void expect_call() {
  std::vector<std::uint64_t> words(Count);
  std::iota(words.begin(), words.end(), std::uint64_t{1} << 40);
  received.clear();
  call_region(code_with(std::make_index_sequence<Count>()), words);
  EXPECT_EQ(received, words) << Count << " arguments";
}

TEST(region_calls, pass_any_number_of_arguments) {
  expect_call<0>();
  expect_call<1>();
  expect_call<6>();
  expect_call<7>(); // the first argument on the stack
  expect_call<32>();
  expect_call<33>();
  expect_call<100>();
  expect_call<7>();
}

void throws() { throw std::out_of_range("region"); }

TEST(region_calls, let_exceptions_pass) {
  EXPECT_THROW(call_region(code_of(&throws), {}), std::out_of_range);
}

} // namespace
} // namespace farcall::openmp::region_call_test
