// SPDX-License-Identifier: Apache-2.0

// Tests of values, memory, nested calls and failures between programs of different builds and
// machines. calls_test.cpp instantiates the tests with the programs.
#include "tests/different_builds/different_builds.hpp"
#include "tests/different_builds/program.hpp"
#include "tests/different_builds/values.hpp"

#include <farcall/c/library.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>

namespace different {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::uint64_t> numbers(std::size_t n) {
  std::vector<std::uint64_t> all(n);
  std::iota(all.begin(), all.end(), 1U);
  return all;
}

/// True if the other program has another long double than this one.
bool has_other_long_double(const other_program& p) {
  return p.is_emulated && std::numeric_limits<long double>::digits == 64;
}

TEST_P(different_builds, values_of_every_type) {
  EXPECT_THAT(wrong_values(other_), IsEmpty());
  EXPECT_THAT(wrong_values_between(other_, job_->host()), IsEmpty()) << "calls from there";
  EXPECT_THAT(wrong_values_between(other_, second_), IsEmpty()) << "between two of them";
  EXPECT_THAT(wrong_values_between(other_, ours_), IsEmpty()) << "between targets";
}

TEST_P(different_builds, types_that_depend_on_machines_are_refused_or_right) {
  EXPECT_EQ(call_with_fixed_class(other_), "ok");
  for (const auto call :
       {call_with_long_double, call_with_hidden_long_double, call_with_array_of_long_double,
        call_with_view_of_long_double, call_with_captured_long_double, call_with_aligned_class}) {
    EXPECT_EQ(call(ours_), "ok");
    if (has_other_long_double(GetParam())) {
      EXPECT_THAT(call(other_), AllOf(HasSubstr("m64"), HasSubstr("with signature"),
                                      HasSubstr("m113"), HasSubstr("node 1")));
    } else {
      EXPECT_EQ(call(other_), "ok");
    }
  }
}

TEST_P(different_builds, arguments_and_results_of_any_size) {
  for (const std::size_t n : {0U, 1U, 100U, 2'000U, 100'000U, 1'000'000U}) {
    const std::vector<std::uint64_t> got = fc::sync(other_, fc::fn<&counted_up>, numbers(n));
    ASSERT_EQ(got.size(), n);
    std::vector<std::uint64_t> right = numbers(n);
    for (std::uint64_t& v : right)
      ++v;
    EXPECT_EQ(got, right) << n;
  }
}

TEST_P(different_builds, functions_of_the_system_by_their_signatures) {
  fc_node there{};
  fc_library program{};
  ASSERT_EQ(fc_node_at(nullptr, other_.id(), &there), FC_OK);
  ASSERT_EQ(fc_library_load(there, "", &program), FC_OK) << fc_error_text();
  const auto call = [&](const char* name, const char* signature,
                        const std::vector<fc_value>& arguments) {
    fc_native function{};
    fc_value result{};
    EXPECT_EQ(fc_symbol(program, name, signature, &function), FC_OK) << fc_error_text();
    EXPECT_EQ(fc_native_call(there, function, arguments.data(), &result), FC_OK) << fc_error_text();
    return result;
  };
  EXPECT_EQ(call("ldexp", "d(di)", {{.d = 1.5}, {.i = -3}}).d, 0.1875);
  EXPECT_EQ(call("ldexpf", "f(fi)", {{.f = 1.5F}, {.i = 3}}).f, 12);
  EXPECT_EQ(call("labs", "l(l)", {{.l = -5'000'000'000}}).l, 5'000'000'000);
  // The highest bit of an unsigned integer is no sign.
  EXPECT_EQ(call("htonl", "I(I)", {{.I = 0x80}}).I, 0x80000000U);
  std::string text = "text";
  EXPECT_EQ(call("strnlen", "N(sN)", {{.s = {"text", 4}}, {.N = 100}}).N, 4U);
  call("strcpy", "p(xs)", {{.x = {text.data(), 4}}, {.s = {"new", 3}}});
  EXPECT_STREQ(text.c_str(), "new");
  EXPECT_EQ(call("close", "i(i)", {{.i = -1}}).i, -1);
  EXPECT_EQ(fc_native_errno(), EBADF);
}

TEST_P(different_builds, many_calls) {
  // Wraps the rings many times, with a full window.
  constexpr int calls = 30'000;
  constexpr int window = 300;
  std::vector<fc::future<int>> under_way(window);
  std::int64_t sum = 0;
  for (int i = 0; i < calls + window; ++i) {
    auto& future = under_way[static_cast<std::size_t>(i % window)];
    if (i >= window) sum += future.get();
    if (i < calls) future = fc::async(other_, fc::fn<&triple>, i);
  }
  EXPECT_EQ(sum, std::int64_t{3} * calls * (calls - 1) / 2);
}

TEST_P(different_builds, calls_with_pauses_between_them) {
  // The pauses are long enough for both sides to fall asleep.
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(fc::sync(other_.within(farcall::test::wait_limit), triple, i), 3 * i);
  }
}

TEST_P(different_builds, nested_calls_and_callbacks) {
  EXPECT_EQ(factorial_by_turns(20, other_), 2'432'902'008'176'640'000U);
  EXPECT_EQ(fc::sync(other_, fc::fn<&factorial_by_turns>, 20U, job_->host()),
            2'432'902'008'176'640'000U);
  EXPECT_EQ(fc::sync(other_, fc::fn<&factorial_by_turns>, 20U, second_),
            2'432'902'008'176'640'000U);
}

TEST_P(different_builds, memory_is_put_got_copied_and_mapped) {
  constexpr std::size_t n = 300'000;
  const auto there = other_.allocate<std::uint64_t>(n);
  const auto second = second_.allocate<std::uint64_t>(n);
  fc::put_sync(numbers(n), there);
  EXPECT_EQ(fc::sync(other_, fc::fn<&sum_of>, there.span()), n * (n + 1) / 2);
  fc::sync(other_, multiply, there.span(), std::uint64_t{3});

  std::vector<std::uint64_t> back(n);
  fc::get_sync(there, back);
  std::vector<std::uint64_t> right = numbers(n);
  for (std::uint64_t& v : right)
    v *= 3;
  EXPECT_EQ(back, right);

  fc::copy_sync(there, second);
  EXPECT_EQ(fc::sync(second_, fc::fn<&sum_of>, second.span()), 3 * n * (n + 1) / 2);

  if (GetParam().is_served) {
    EXPECT_THROW((void)fc::map(second), fc::error);
    return;
  }
  const auto mapped = fc::map(second);
  EXPECT_TRUE(std::equal(mapped.begin(), mapped.end(), right.begin(), right.end()));
  mapped[0] += 5;
  EXPECT_EQ(fc::sync(second_, fc::fn<&sum_of>, second.span()), 3 * n * (n + 1) / 2 + 5);
}

TEST_P(different_builds, unregistered_memory_is_reached) {
  // An emulator may have shifted the address, so the host must not access the memory directly.
  const fc::remote_span<std::uint64_t> there = fc::sync(other_, fc::fn<&private_memory>);
  fc::put_sync(numbers(there.size()), there);
  EXPECT_EQ(fc::sync(other_, fc::fn<&sum_of>, there), there.size() * (there.size() + 1) / 2);
  fc::sync(other_, multiply, there, std::uint64_t{2});
  std::vector<std::uint64_t> back(there.size());
  fc::get_sync(there, back);
  EXPECT_EQ(back.front(), 2U);
  EXPECT_EQ(back.back(), 2 * there.size());
}

TEST_P(different_builds, a_killed_node_ends_only_its_own_calls) {
  fc::future<int> never = fc::async(other_, fc::fn<&sleep_for_ever>, 1);
  EXPECT_FALSE(never.wait_for(std::chrono::milliseconds(50)));
  ASSERT_EQ(::kill(static_cast<pid_t>(other_.description().pid), SIGKILL), 0);
  EXPECT_THAT(farcall::test::text_thrown_by<fc::node_failed>([&] { (void)never.get(); }),
              AllOf(HasSubstr("node 1"), HasSubstr("SIGKILL")));
  EXPECT_THROW((void)fc::sync(other_, triple, 1), fc::node_failed);
  EXPECT_FALSE(other_.alive());
  EXPECT_EQ(fc::sync(second_, triple, 5), 15);
  EXPECT_EQ(fc::sync(ours_, triple, 5), 15);
  // The other targets know that the node has ended.
  EXPECT_THROW((void)ask_everything_of(second_, other_), fc::remote_error);
}

TEST_P(different_builds, exceptions_keep_their_type_and_text) {
  const auto e = farcall::test::thrown_by<fc::remote_error>(
      [&] { fc::sync(other_, fc::fn<&throw_out_of_range>, 7); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->type_name(), "std::out_of_range");
  EXPECT_EQ(e->text(), "no 7");
}

TEST_P(different_builds, the_other_build_may_be_the_host) {
  // A host of the other build starts this program as its target. Emulated hosts cannot start one.
  if (GetParam().is_emulated) return;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string targets =
      "shm?program=" + self + ",shm?program=" DIFFERENT_SAME_COMPILER_TARGET;
  EXPECT_EQ(std::system(("'" + GetParam().path + "' '" + targets + "'").c_str()), 0);
}

TEST_P(different_builds, a_node_knows_the_build_of_its_program) {
  // The program for RISC-V is linked without a build id.
  if (GetParam().preset != "riscv64") {
    EXPECT_THAT(build_of(other_), ::testing::MatchesRegex("[0-9a-f]{16,}"));
    return;
  }
  struct stat program{};
  ASSERT_EQ(::stat(GetParam().path.c_str(), &program), 0);
  EXPECT_THAT(build_of(other_), ::testing::StartsWith("file "));
  EXPECT_THAT(build_of(other_), HasSubstr(":" + std::to_string(program.st_ino) + ":" +
                                          std::to_string(program.st_size) + ":"));
}

TEST_P(different_builds, the_description_names_the_machine) {
  const fc::node_description about = other_.description();
  if (GetParam().is_emulated) {
    EXPECT_EQ(about.architecture, GetParam().preset);
  } else {
    EXPECT_EQ(about.architecture, ours_.description().architecture);
  }
}

} // namespace
} // namespace different
