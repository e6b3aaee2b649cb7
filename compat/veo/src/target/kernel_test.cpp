// SPDX-License-Identifier: Apache-2.0
#include "kernel.hpp"

#include "kernel_stack.hpp"
#include "test_kernels/kernels.hpp"
#include "test_kernels/library.hpp"
#include "test_kernels/printing.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::veo::kernel_test {
namespace {

using test::library;
using enum value_class;

/// Returns a value in the layout of the vector engine's registers.
std::uint64_t word_of(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint64_t word_of(float value) {
  return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(value)) << 32U;
}
std::uint64_t word_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Collects arguments like the functions veo_args_set_*().
struct arguments {
  std::vector<std::uint64_t> words;
  std::vector<argument_kind> how;

  arguments& operator<<(double value) { return add(word_of(value), argument_kind::real64); }
  arguments& operator<<(float value) { return add(word_of(value), argument_kind::real32); }
  arguments& operator<<(std::int64_t value) { return add(word_of(value), argument_kind::integer); }

  /// Marks all arguments as integers, as language bindings set them.
  arguments& without_kinds() {
    how.assign(words.size(), argument_kind::integer);
    return *this;
  }

 private:
  arguments& add(std::uint64_t word, argument_kind kind) {
    words.push_back(word);
    how.push_back(kind);
    return *this;
  }
};

std::uint64_t value_of(const kernel& called, const arguments& given, void* stack_top = nullptr) {
  const kernel::result result = called.call(given.words, given.how, stack_top);
  EXPECT_EQ(result.fault_signal, 0);
  return result.value;
}

constexpr std::uint64_t some_bits = 0xFEDCBA98F6D4B290;

// --- classes, one by one -----------------------------------------------------------------------

struct conversion {
  value_class kind;
  std::uint64_t word;
  std::uint64_t expected;
};

class integer_class : public ::testing::TestWithParam<conversion> {};

TEST_P(integer_class, converts_a_parameter_for_the_kernel) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  const kernel same(library["same"], signature{integer64, {GetParam().kind}, false});
  const std::array words = {GetParam().word};
  EXPECT_EQ(same.call(words, {}, nullptr).value, GetParam().expected);
}

TEST_P(integer_class, converts_a_result_for_the_caller) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  const kernel same(library["same"], signature{GetParam().kind, {integer64}, false});
  const std::array words = {GetParam().word};
  EXPECT_EQ(same.call(words, {}, nullptr).value, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(kernel, integer_class,
                         ::testing::Values(conversion{sint8, 0x1FF, 0xFFFFFFFFFFFFFFFF},
                                           conversion{sint8, 0x17F, 0x7F},
                                           conversion{sint16, 0x1FFFE, 0xFFFFFFFFFFFFFFFE},
                                           conversion{sint16, 0x17FFF, 0x7FFF},
                                           conversion{sint32, 0x180000000, 0xFFFFFFFF80000000},
                                           conversion{sint32, 0x17FFFFFFF, 0x7FFFFFFF},
                                           conversion{uint8, 0xFFFFFFFFFFFFFFFE, 0xFE},
                                           conversion{uint16, 0xFFFFFFFFFFFFFFFE, 0xFFFE},
                                           conversion{uint32, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFE},
                                           conversion{boolean, 0x100, 0},
                                           conversion{boolean, 0x102, 1},
                                           conversion{integer64, some_bits, some_bits},
                                           conversion{unknown, some_bits, some_bits}));

TEST(kernel, returns_nothing_from_a_kernel_that_returns_nothing) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  const kernel same(library["same"], signature{none, {integer64}, false});
  const std::array words = {some_bits};
  EXPECT_EQ(same.call(words, {}, nullptr).value, 0U);
}

TEST(kernel, passes_and_returns_reals) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  const kernel real(library["same_real"], signature{real64, {real64}, false});
  const kernel single(library["same_single"], signature{real32, {real32}, false});
  EXPECT_EQ(value_of(real, arguments() << 0.1), word_of(0.1));
  EXPECT_EQ(value_of(single, arguments() << 0.1F), word_of(0.1F));
}

TEST(kernel, without_a_signature_returns_the_integer_register) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  const std::array words = {some_bits};
  EXPECT_EQ(kernel(library["same"]).call(words, {}, nullptr).value, some_bits);
}

// --- sources of the classes --------------------------------------------------------------------

class mixed_arguments : public ::testing::TestWithParam<const char*> {
 protected:
  static arguments values() {
    return arguments() << std::int64_t{-1} << 1.5 << 2.5F << std::int64_t{-3} << 4.5
                       << std::int64_t{-5} << 6.5F << 7.5 << std::int64_t{8} << 9.5 << 10.5F
                       << std::int64_t{-11} << 12.5 << std::int64_t{-13} << 14.5F << 15.5 << 16.5F
                       << 17.5 << std::int64_t{-18} << 19.5;
  }

  static constexpr std::array<double, 20> expected = {-1,   1.5,  2.5,  -3,   4.5, -5,   6.5,
                                                      7.5,  8,    9.5,  10.5, -11, 12.5, -13,
                                                      14.5, 15.5, 16.5, 17.5, -18, 19.5};

  using seen = std::array<double, 20>;
};

TEST_P(mixed_arguments, each_get_where_they_belong) {
  const library library(GetParam());
  const kernel_stack stack(std::size_t{1} << 20);
  const kernel mixed(library["mixed"], signature_of(library["mixed"]));
  for (void* top : {static_cast<void*>(nullptr), stack.top()}) {
    library.variable<seen>("mixed_seen") = {};
    value_of(mixed, values(), top);
    EXPECT_EQ(library.variable<seen>("mixed_seen"), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(kernel, mixed_arguments,
                         ::testing::Values(FARCALL_VEO_TEST_KERNELS_DEBUG,
                                           FARCALL_VEO_TEST_KERNELS_LINES,
                                           FARCALL_VEO_TEST_KERNELS_PLAIN));

#if FARCALL_VEO_HAS_DWARF

using described_arguments = mixed_arguments;

TEST_P(described_arguments, that_are_set_as_integers_get_there_too) {
  const library library(GetParam());
  const kernel mixed(library["mixed"], signature_of(library["mixed"]));
  EXPECT_EQ(value_of(mixed, values().without_kinds()), word_of(19.5));
  EXPECT_EQ(library.variable<seen>("mixed_seen"), expected);
}

INSTANTIATE_TEST_SUITE_P(kernel, described_arguments,
                         ::testing::Values(FARCALL_VEO_TEST_KERNELS_DEBUG));

class c_kernels : public ::testing::Test {
 protected:
  kernel operator[](const char* name) const {
    return kernel(library_[name], signature_of(library_[name]));
  }

  std::int64_t integer_of(const char* name, const arguments& given = {}) const {
    return static_cast<std::int64_t>(value_of((*this)[name], given));
  }

 private:
  library library_{FARCALL_VEO_TEST_KERNELS_C};
};

TEST_F(c_kernels, return_reals_although_arguments_are_integers) {
  const auto& kernels = *this;
  EXPECT_EQ(value_of(kernels["quotient"], (arguments() << 7.0 << 2.0).without_kinds()),
            word_of(3.5));
  EXPECT_EQ(value_of(kernels["half_single"], (arguments() << 7.0F).without_kinds()), word_of(3.5F));
}

TEST_F(c_kernels, return_narrow_integers_by_their_own_sign) {
  EXPECT_EQ(integer_of("negative_short"), -2);
  EXPECT_EQ(integer_of("big_short"), 0xFFFE);
  EXPECT_EQ(integer_of("negative_int"), -3);
  EXPECT_EQ(integer_of("big_int"), 0xFFFFFFFD);
  const auto four = [](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return arguments() << a << b << c << d;
  };
  EXPECT_EQ(integer_of("narrow_signed", four(-1, -2, -3, -4)), -10);
  EXPECT_EQ(integer_of("narrow_unsigned", four(255, 65535, 0xFFFFFFFF, -1)), 252);
  EXPECT_EQ(integer_of("negation", arguments() << std::int64_t{0}), 1);
  EXPECT_EQ(integer_of("negation", arguments() << std::int64_t{1}), 0);
  EXPECT_EQ(integer_of("opposite", arguments() << std::int64_t{70000} << std::int64_t{0}), -1);
}

#if defined(__x86_64__)

TEST_F(c_kernels, take_and_return_structures_of_one_word) {
  const auto& kernels = *this;
  const auto both = std::bit_cast<std::int64_t>(std::array{1.0F, 2.0F});
  EXPECT_EQ(value_of(kernels["sum_of_reals_in"], arguments() << both << 3.0 << 4.0F),
            word_of(4321.0F));
  EXPECT_EQ(value_of(kernels["swapped"], arguments() << both),
            std::bit_cast<std::uint64_t>(std::array{2.0F, 1.0F}));
  EXPECT_EQ(value_of(kernels["doubled"], arguments() << 1.5), word_of(3.0));
  struct {
    float first = 5;
    int second = 60;
  } mixed;
  EXPECT_EQ(integer_of("sum_of_words",
                       arguments() << std::bit_cast<std::int64_t>(mixed) << std::int64_t{700}),
            765);
  EXPECT_FALSE(kernels["second_of_packed"].is_callable());
}

#endif

TEST_F(c_kernels, that_return_nothing_return_0) {
  EXPECT_EQ(integer_of("no_arguments"), 0);
  EXPECT_EQ(integer_of("named_nothing", arguments() << std::int64_t{5}), 0);
}

TEST(fortran_kernels, are_called_by_reference_and_by_value) {
  if (std::string(FARCALL_VEO_TEST_KERNELS_FORTRAN).empty()) GTEST_SKIP() << "no gfortran found";
  const library fortran(FARCALL_VEO_TEST_KERNELS_FORTRAN);
  const auto called = [&fortran](const char* name, const arguments& given) {
    return value_of(kernel(fortran[name], signature_of(fortran[name])), given);
  };
  const auto at = [](const auto& value) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&value));
  };

  const int count = 3;
  const std::array<double, 3> a = {1, 2, 3};
  const std::array<double, 3> b = {10, 100, 1000};
  EXPECT_EQ(called("fortran_dot_", arguments() << at(count) << at(a) << at(b)), word_of(3210.0));

  const double ninth = 9.25;
  arguments nine;
  for (int index = 0; index < 8; ++index)
    nine << at(a);
  EXPECT_EQ(called("fortran_ninth_", nine << at(ninth)), word_of(9.25));

  float scaled = 1.5F;
  const std::int16_t factor = -4;
  called("fortran_scale_", arguments() << at(scaled) << at(factor));
  EXPECT_EQ(scaled, -6.0F);

  arguments values;
  values << 0.5 << std::int64_t{-1} << 0.25F;
  for (std::int64_t power = 1; power <= 64; power *= 2)
    values << power;
  EXPECT_EQ(called("fortran_values", (values << std::int64_t{-1000}).without_kinds()),
            word_of(0.5 - 1 + 0.25 + 127 - 1000));

  double seen = 0;
  called("fortran_address", arguments() << at(ninth) << at(seen));
  EXPECT_EQ(seen, 9.25);
}

#endif

// --- numbers of arguments ----------------------------------------------------------------------

TEST(kernel, takes_forty_parameters) {
  const library library(FARCALL_VEO_TEST_KERNELS_DEBUG);
  const void* code = library["mismatches_of_forty"];
  arguments given;
  for (std::int64_t index = 0; index < 40; ++index)
    given << 3 * index + 1;
  EXPECT_EQ(value_of(kernel(code, signature_of(code)), given), 0U);
  given.words[39] = 0;
  EXPECT_EQ(value_of(kernel(code, signature_of(code)), given), 1U);
}

class argument_count : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(argument_count, is_not_limited) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  const kernel_stack stack(std::size_t{1} << 20);
  arguments given;
  given << GetParam();
  for (std::int64_t index = 0; index < GetParam(); ++index)
    given << 3 * index + 1;
  for (void* top : {static_cast<void*>(nullptr), stack.top()}) {
    EXPECT_EQ(value_of(kernel(library["mismatches"]), given, top), 0U);
  }
  given.words.back() = 0;
  EXPECT_EQ(value_of(kernel(library["mismatches"]), given), 1U);
}

// Values around the number of registers, around the limit without allocation, and far beyond.
INSTANTIATE_TEST_SUITE_P(kernel, argument_count,
                         ::testing::Values(1, 4, 5, 6, 7, 8, 9, 63, 70, 76, 77, 78, 79, 300, 5000));

TEST(kernel, takes_more_reals_than_there_are_registers) {
  const library library(FARCALL_VEO_TEST_KERNELS_DEBUG);
  const void* code = library["sum_of_reals"];
  arguments given;
  given << std::int64_t{200};
  double expected = 0;
  for (int index = 0; index < 200; ++index) {
    given << index + 0.5;
    expected += index + 0.5;
  }
  // The call gives the types of arguments behind the named parameters.
  std::optional<signature> known = signature{real64, {integer64}, true};
#if FARCALL_VEO_HAS_DWARF
  EXPECT_EQ(signature_of(code), known);
#endif
  EXPECT_EQ(value_of(kernel(code, known), given), word_of(expected));
}

TEST(kernel, takes_missing_kinds_for_integers) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  const std::array<std::uint64_t, 3> words = {2, 1, 4};
  const std::array how = {argument_kind::integer};
  EXPECT_EQ(kernel(library["mismatches"]).call(words, how, nullptr).value, 0U);
}

TEST(kernel, takes_no_arguments_at_all) {
  const library library(FARCALL_VEO_TEST_KERNELS_PLAIN);
  EXPECT_EQ(kernel(library["stack_misalignment"]).call({}, {}, nullptr).value, 0U);
}

// --- threads -----------------------------------------------------------------------------------

TEST(kernel, runs_on_several_threads_at_once) {
  const library library(FARCALL_VEO_TEST_KERNELS_DEBUG);
  constexpr std::int64_t together = 4;
  const kernel meet(library["meet"]);
  const kernel deep(library["use_stack"]);
  std::array<bool, together> good{};
  std::vector<std::thread> threads;
  for (bool& is_good : good) {
    threads.emplace_back([&] {
      const kernel_stack stack(std::size_t{16} << 20);
      const arguments everybody = arguments() << together;
      is_good = value_of(meet, everybody, stack.top()) == together;
      for (std::uint64_t levels = 0; levels < 2000; levels += 100) {
        const std::array words = {levels};
        is_good = is_good && deep.call(words, {}, stack.top()).value == levels + 1;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(good, (std::array{true, true, true, true}));
}

} // namespace
} // namespace farcall::veo::kernel_test
