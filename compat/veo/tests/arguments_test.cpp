// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace veo_test {
namespace {

/// Kernels with debug information, and stripped: types are then only known from the functions that
/// set the arguments.
class arguments_of : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::uint64_t kernel(const std::string& name) {
    return process_.symbol(name, GetParam());
  }
  template <class... T>
  [[nodiscard]] outcome call(const std::string& name, T... values) {
    return veo_test::call(process_.main(), kernel(name), values...);
  }
  process& proc() { return process_; }

 private:
  process process_;
};
INSTANTIATE_TEST_SUITE_P(veo, arguments_of, ::testing::Values("basic", "basic_stripped"),
                         [](const auto& i) { return std::string(i.param); });

/// Passes the limits of a type and values between them, and checks the values that the kernel saw.
template <class T, class Check>
void for_limits(Check check) {
  for (const T value :
       {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(-1), T(0), T(1), T(77)})
    check(value);
}

TEST_P(arguments_of, signed_integers) {
  for_limits<std::int64_t>([&](auto v) { EXPECT_EQ(call("from_i64", v), ok(word(v))); });
  for_limits<std::int32_t>([&](auto v) { EXPECT_EQ(call("from_i32", v), ok(word(v))); });
  for_limits<std::int16_t>([&](auto v) { EXPECT_EQ(call("from_i16", v), ok(word(v))); });
  for_limits<std::int8_t>([&](auto v) { EXPECT_EQ(call("from_i8", v), ok(word(v))); });
}

TEST_P(arguments_of, unsigned_integers) {
  for_limits<std::uint64_t>([&](auto v) { EXPECT_EQ(call("from_u64", v), ok(v)); });
  for_limits<std::uint32_t>([&](auto v) { EXPECT_EQ(call("from_u32", v), ok(v)); });
  for_limits<std::uint16_t>([&](auto v) { EXPECT_EQ(call("from_u16", v), ok(v)); });
  for_limits<std::uint8_t>([&](auto v) { EXPECT_EQ(call("from_u8", v), ok(v)); });
}

TEST_P(arguments_of, integers_are_widened_by_their_own_sign) {
  EXPECT_EQ(call("from_i64", std::int32_t{-5}), ok(word(-5)));
  EXPECT_EQ(call("from_i64", std::int16_t{-5}), ok(word(-5)));
  EXPECT_EQ(call("from_i64", std::int8_t{-5}), ok(word(-5)));
  EXPECT_EQ(call("from_i64", std::uint32_t{0xFFFFFFFB}), ok(0xFFFFFFFB));
  EXPECT_EQ(call("from_i64", std::uint16_t{0xFFFB}), ok(0xFFFB));
  EXPECT_EQ(call("from_i64", std::uint8_t{0xFB}), ok(0xFB));
  // A narrow parameter takes the lower part of the word.
  EXPECT_EQ(call("from_i32", std::int64_t{0x123456789}), ok(0x23456789));
}

TEST_P(arguments_of, reals) {
  EXPECT_EQ(call("from_double", 1.5), ok(1500));
  EXPECT_EQ(call("from_double", -1e9), ok(word(-1000000000000)));
  EXPECT_EQ(call("from_float", 2.5F), ok(2500));
  EXPECT_EQ(call("from_float", -0.125F), ok(word(-125)));
}

TEST_P(arguments_of, ten_doubles_in_order) {
  // 1 * 10 + 2 * 20 + ... + 10 * 100
  EXPECT_EQ(call("ten_doubles", 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0),
            ok(3850));
}

TEST_P(arguments_of, both_classes_and_all_sizes_mixed) {
  const outcome o =
      call("mixed", std::int8_t{-1}, 0.5, std::uint8_t{200}, 1.5F, std::int16_t{-300}, 2.5,
           std::uint16_t{60000}, 3.5F, std::int32_t{-70000}, 4.5, std::uint32_t{4000000000}, 5.5F,
           std::int64_t{-5000000000}, 6.5, std::uint64_t{6000000000}, 7.5F, std::int8_t{-8}, 8.5,
           std::int32_t{-9}, 9.5F, 10.5);
  ASSERT_EQ(o, ok(21));
  using integers = std::array<std::int64_t, 10>;
  using reals = std::array<double, 11>;
  EXPECT_EQ(proc().read<integers>(proc().symbol("seen_integers", GetParam())),
            (integers{-1, 200, -300, 60000, -70000, 4000000000, -5000000000, 6000000000, -8, -9}));
  EXPECT_EQ(proc().read<reals>(proc().symbol("seen_reals", GetParam())),
            (reals{0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5}));
}

TEST_P(arguments_of, three_hundred_words) {
  const arguments a;
  std::uint64_t sum = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t value = scrambled(static_cast<unsigned>(i));
    ASSERT_EQ(veo_args_set_u64(a.get(), i, value), 0);
    sum += static_cast<unsigned>(i + 1) * value;
  }
  EXPECT_EQ(proc().call_with(kernel("three_hundred"), a), sum);
}

TEST_P(arguments_of, two_hundred_of_both_classes) {
  const arguments a;
  std::int64_t sum = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(veo_args_set_i32(a.get(), 2 * i, -i), 0);
    ASSERT_EQ(veo_args_set_double(a.get(), 2 * i + 1, 3.0 * i), 0);
    sum += (i + 1) * (-i + 1000 * 3 * std::int64_t{i});
  }
  EXPECT_EQ(proc().call_with(kernel("two_hundred_in_pairs"), a), word(sum));
}

TEST_P(arguments_of, set_in_any_order) {
  const arguments a;
  ASSERT_EQ(veo_args_set_double(a.get(), 9, 100.0), 0);
  for (int i = 8; i >= 0; --i)
    ASSERT_EQ(veo_args_set_double(a.get(), i, 10.0 * (i + 1)), 0);
  EXPECT_EQ(proc().call_with(kernel("ten_doubles"), a), 3850U);
}

TEST_P(arguments_of, structures_by_pointer) {
  struct particle {
    double place[3];
    float charge;
    std::int32_t number;
  } p = {{1, 2, 3}, 0.5F, -17};
  EXPECT_EQ(call("move_particle", in_out(&p, 1), 10.0), ok(word(-17)));
  EXPECT_EQ(p.place[0], 11);
  EXPECT_EQ(p.place[2], 13);
  EXPECT_EQ(p.charge, -0.5F);
}

TEST_P(arguments_of, copies_between_values) {
  const std::array<std::int32_t, 5> input{1, -2, 3, -4, 5};
  std::array<double, 5> output{};
  std::array<float, 5> both{10, 20, 30, 40, 50};
  EXPECT_EQ(call("stack_and_values", in(input.data(), 5), 1.5, out(output.data(), 5),
                 std::int64_t{5}, 0.25F, in_out(both.data(), 5), std::int8_t{-3}),
            ok(word(-3)));
  EXPECT_EQ(output, (std::array<double, 5>{1.5, -3, 4.5, -6, 7.5}));
  EXPECT_EQ(both, (std::array<float, 5>{10.25F, 20.25F, 30.25F, 40.25F, 50.25F}));
}

TEST_P(arguments_of, ten_copies) {
  std::array<std::uint64_t, 10> w{};
  for (std::uint64_t i = 0; i < 10; ++i)
    w.at(i) = 100 * i;
  EXPECT_EQ(call("ten_words", in_out(&w[0], 1), in_out(&w[1], 1), in_out(&w[2], 1),
                 in_out(&w[3], 1), in_out(&w[4], 1), in_out(&w[5], 1), in_out(&w[6], 1),
                 in_out(&w[7], 1), in_out(&w[8], 1), in_out(&w[9], 1)),
            ok(10));
  for (std::uint64_t i = 0; i < 10; ++i)
    EXPECT_EQ(w.at(i), 101 * i);
}

TEST_P(arguments_of, results_that_are_pointers) {
  EXPECT_EQ(call("a_pointer", std::uint64_t{1000}), ok(1008));
}

TEST_P(arguments_of, kernels_without_result) {
  const std::uint64_t address = proc().allocate(8);
  proc().write(address, std::uint64_t{0});
  EXPECT_EQ(call("no_result", address).state, VEO_COMMAND_OK);
  EXPECT_EQ(proc().read<std::uint64_t>(address), 1U);
}

// --- with debug information: what the card's one set of registers allowed ------------------------

class arguments_with_types : public ::testing::Test {
 protected:
  template <class... T>
  [[nodiscard]] outcome call(const std::string& name, T... values) {
    return veo_test::call(process_.main(), process_.symbol(name), values...);
  }

 private:
  process process_;
};

TEST_F(arguments_with_types, reals_as_bits) {
  EXPECT_EQ(call("from_double", bits_of(1.5)), ok(1500));
  EXPECT_EQ(call("from_float", bits_of(2.5F)), ok(2500));
  EXPECT_EQ(call("ten_doubles", bits_of(10.0), 20.0, bits_of(30.0), 40.0, bits_of(50.0), 60.0,
                 bits_of(70.0), 80.0, bits_of(90.0), bits_of(100.0)),
            ok(3850));
}

TEST_F(arguments_with_types, narrow_parameters_take_their_part_of_the_word) {
  EXPECT_EQ(call("from_u8", std::int64_t{0x1FF}), ok(0xFF));
  EXPECT_EQ(call("from_i8", std::int64_t{0x1FF}), ok(word(-1)));
  EXPECT_EQ(call("from_u16", std::int64_t{-1}), ok(0xFFFF));
}

TEST_F(arguments_with_types, bits_of_reals_as_integers) {
  EXPECT_EQ(call("from_u64", 1.5), ok(bits_of(1.5)));
  EXPECT_EQ(call("from_u64", 2.5F), ok(bits_of(2.5F)));
}

TEST_F(arguments_with_types, results_that_are_real) {
  EXPECT_EQ(call("halved", 5.0), ok(bits_of(2.5)));
  EXPECT_EQ(call("halved", bits_of(-1e300)), ok(bits_of(-5e299)));
  EXPECT_EQ(call("halved_float", 5.0F), ok(bits_of(2.5F)));
}

TEST_F(arguments_with_types, kernels_with_other_types_are_refused) {
  for (const char* const name : {"sum_of_structure", "make_structure", "largest"}) {
    EXPECT_EQ(call(name, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}), error) << name;
    EXPECT_NE(last_error().find("by value"), std::string::npos) << last_error();
  }
  EXPECT_EQ(call("high_of", std::int64_t{5} << 32), ok(5));
}

TEST_F(arguments_with_types, narrow_results_are_widened) {
  EXPECT_EQ(call("minus_one"), ok(word(-1)));
  EXPECT_EQ(call("minus_two"), ok(word(-2)));
  EXPECT_EQ(call("minus_three"), ok(word(-3)));
  EXPECT_EQ(call("max_u32"), ok(0xFFFFFFFF));
  EXPECT_EQ(call("max_u8"), ok(0xFF));
  EXPECT_EQ(call("truth", std::uint64_t{256}), ok(1));
  EXPECT_EQ(call("truth", std::uint64_t{0}), ok(0));
  EXPECT_EQ(call("a_colour", std::uint64_t{0}), ok(3));
  EXPECT_EQ(call("a_colour", std::uint64_t{1}), ok(word(-4)));
}

// --- kernels in other languages ------------------------------------------------------------------

TEST(arguments_in_cxx, arrays_and_exceptions_of_their_own) {
  process p;
  const std::array<double, 4> numbers{1, 2, 3, 4.5};
  EXPECT_EQ(call(p.main(), p.symbol("sum_doubles", "cxx"), in(numbers.data(), 4), std::uint64_t{4}),
            ok(bits_of(10.5)));
  EXPECT_EQ(call(p.main(), p.symbol("catch_own_exception", "cxx"), std::int64_t{5}), ok(5));
  // 8 is the length of "negative".
  EXPECT_EQ(call(p.main(), p.symbol("catch_own_exception", "cxx"), std::int64_t{-5}), ok(8));
}

TEST(arguments_in_fortran, by_reference) {
  process p;
  std::array<double, 3> x{1, 2, 3};
  const std::int64_t n = 3;
  const double factor = 2.5;
  EXPECT_EQ(call(p.main(), p.symbol("scale_array_", "fortran"), in_out(x.data(), 3), in(&n, 1),
                 in(&factor, 1)),
            ok(3));
  EXPECT_EQ(x, (std::array<double, 3>{2.5, 5, 7.5}));

  const std::array<float, 4> a{1, 2, 3, 4};
  const std::array<float, 4> b{0.5, 0.25, 0.125, 0};
  std::array<float, 4> c{};
  const std::int32_t four = 4;
  EXPECT_EQ(call(p.main(), p.symbol("add_arrays_", "fortran"), in(a.data(), 4), in(b.data(), 4),
                 out(c.data(), 4), in(&four, 1))
                .state,
            VEO_COMMAND_OK);
  EXPECT_EQ(c, (std::array<float, 4>{1.5, 2.25, 3.125, 4}));
}

TEST(arguments_in_fortran, by_value) {
  process p;
  EXPECT_EQ(
      call(p.main(), p.symbol("weighted", "fortran"), std::int32_t{1}, 2.0, std::int64_t{3}, 4.0F),
      ok(4321));
  const std::array<double, 3> a{1, 2, 3};
  const std::array<double, 3> b{4, 5, 6};
  EXPECT_EQ(
      call(p.main(), p.symbol("dot", "fortran"), in(a.data(), 3), in(b.data(), 3), std::int64_t{3}),
      ok(bits_of(32.0)));
}

// --- the object that holds them ------------------------------------------------------------------

TEST(arguments_object, keeps_the_last_value) {
  process p;
  arguments a(std::int64_t{1}, std::int64_t{2});
  a.set(1, std::int32_t{-20});
  EXPECT_EQ(p.call_with(p.symbol("add"), a), word(-19));
  a.set(0, std::uint8_t{200});
  EXPECT_EQ(p.call_with(p.symbol("add"), a), 180U);
  // The new value may have another class.
  a.set(0, 5.0);
  EXPECT_EQ(p.call_with(p.symbol("from_double"), a), 5000U);
}

TEST(arguments_object, can_be_used_again) {
  process p;
  const std::uint64_t add = p.symbol("add");
  const arguments a(std::int64_t{20}, std::int64_t{22});
  veo_thr_ctxt* const context = p.open();
  std::vector<std::uint64_t> requests;
  for (int i = 0; i < 100; ++i)
    requests.push_back(veo_call_async(context, add, a.get()));
  for (const std::uint64_t r : requests)
    EXPECT_EQ(collect(context, r), ok(42));
  EXPECT_EQ(p.call_with(add, a), 42U);
}

TEST(arguments_object, can_be_cleared) {
  process p;
  const std::uint64_t add = p.symbol("add");
  arguments a(std::int64_t{1}, std::int64_t{2}, std::int64_t{3});
  veo_args_clear(a.get());
  EXPECT_EQ(p.call_with(p.symbol("nothing"), a), 0U);
  // The object is empty: if only argument 1 is set, argument 0 is missing.
  a.set(1, std::int64_t{5});
  EXPECT_EQ(veo_call_async(p.main(), add, a.get()), VEO_REQUEST_ID_INVALID);
  a.set(0, std::int64_t{6});
  EXPECT_EQ(p.call_with(add, a), 11U);
}

TEST(arguments_object, is_read_when_the_call_is_submitted) {
  process p;
  veo_thr_ctxt* const context = p.open();
  gate g(p);
  const std::uint64_t waiting = submit(context, p.symbol("wait_at"), g.address());
  std::vector<std::uint64_t> requests;
  {
    arguments a(std::int64_t{1}, std::int64_t{0});
    for (std::int64_t i = 0; i < 10; ++i) {
      a.set(1, i);
      requests.push_back(veo_call_async(context, p.symbol("add"), a.get()));
    }
    veo_args_clear(a.get());
  }
  g.open();
  EXPECT_EQ(collect(context, waiting), ok(1));
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(collect(context, requests[static_cast<std::size_t>(i)]), ok(word(i + 1)));
}

TEST(arguments_object, with_a_hole_is_refused) {
  process p;
  const arguments a;
  ASSERT_EQ(veo_args_set_i64(a.get(), 0, 1), 0);
  ASSERT_EQ(veo_args_set_i64(a.get(), 2, 3), 0);
  EXPECT_EQ(veo_call_async(p.main(), p.symbol("add"), a.get()), VEO_REQUEST_ID_INVALID);
  EXPECT_NE(last_error(), "");
  std::uint64_t result = 0;
  EXPECT_LT(veo_call_sync(p.get(), p.symbol("add"), a.get(), &result), 0);
  EXPECT_EQ(veo_call_async_by_name(p.main(), p.library("basic"), "add", a.get()),
            VEO_REQUEST_ID_INVALID);
  ASSERT_EQ(veo_args_set_i64(a.get(), 1, 2), 0);
  EXPECT_EQ(p.call_with(p.symbol("add"), a), 3U);
}

TEST(arguments_object, with_a_negative_number_is_refused) {
  const arguments a;
  char c = 0;
  EXPECT_EQ(veo_args_set_i64(a.get(), -1, 0), -1);
  EXPECT_EQ(veo_args_set_double(a.get(), -5, 0), -1);
  EXPECT_EQ(veo_args_set_stack(a.get(), VEO_INTENT_IN, -1, &c, 1), -1);
  EXPECT_EQ(veo_args_set_hmem(a.get(), -1, &c), -1);
}

TEST(arguments_object, may_hold_more_than_the_kernel_takes) {
  process p;
  EXPECT_EQ(p.call("add", std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, 4.0, std::int8_t{5},
                   std::int64_t{6}, std::int64_t{7}, std::int64_t{8}, std::int64_t{9}),
            3U);
}

} // namespace
} // namespace veo_test
