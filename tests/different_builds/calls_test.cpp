// SPDX-License-Identifier: Apache-2.0
#include "tests/different_builds/different_builds.hpp"
#include "tests/different_builds/program.hpp"

#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

namespace different {

int only_on_the_host(int v) { return v; }

namespace {

using farcall::test::text_thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(same_compiler, different_builds,
                         ::testing::Values(other_program{DIFFERENT_SAME_COMPILER_TARGET, "",
                                                         true}));
// Sanitized builds test one compiler and this machine only: a sanitizer's runtime belongs to its
// compiler.
#ifdef DIFFERENT_OTHER_COMPILER_TARGET
INSTANTIATE_TEST_SUITE_P(served, different_builds,
                         ::testing::Values(served({DIFFERENT_SAME_COMPILER_TARGET, "", true})));
INSTANTIATE_TEST_SUITE_P(other_compiler, different_builds,
                         ::testing::Values(other_program{DIFFERENT_OTHER_COMPILER_TARGET, "",
                                                         false}));
INSTANTIATE_TEST_SUITE_P(aarch64, different_builds, ::testing::Values(emulated("aarch64")));
INSTANTIATE_TEST_SUITE_P(riscv64, different_builds, ::testing::Values(emulated("riscv64")));
INSTANTIATE_TEST_SUITE_P(served_aarch64, different_builds,
                         ::testing::Values(served(emulated("aarch64"))));
INSTANTIATE_TEST_SUITE_P(served_riscv64, different_builds,
                         ::testing::Values(served(emulated("riscv64"))));
#endif

TEST_P(different_builds, are_different) {
  EXPECT_NE(build_of(other_), build());
  EXPECT_EQ(build_of(ours_), build());
  EXPECT_EQ(build_of(second_), build_of(other_));
}

TEST_P(different_builds, every_kind_of_call_works) {
  EXPECT_EQ(call_everything(other_), expected_results());
  EXPECT_EQ(call_everything(other_), expected_results()) << "the second time";
  EXPECT_EQ(call_everything(ours_), expected_results());
  EXPECT_EQ(call_everything(job_->host()), expected_results());
}

TEST_P(different_builds, calls_in_every_direction) {
  for (const fc::node& asked : {other_, second_, ours_, job_->host()}) {
    for (const fc::node& there : {other_, second_, ours_, job_->host()}) {
      EXPECT_EQ(ask_everything_of(asked, there), expected_results())
          << asked.id() << " asks " << there.id();
    }
  }
}

TEST_P(different_builds, recursion_between_them) {
  EXPECT_EQ(start_ping_pong(other_, 300, job_->host()), 300);
  EXPECT_EQ(start_ping_pong(other_, 300, ours_), 300);
  EXPECT_EQ(start_ping_pong(ours_, 300, second_), 300);
  EXPECT_EQ(start_ping_pong(other_, 300, second_), 300);
}

TEST_P(different_builds, first_calls_of_many_threads_at_once) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      try {
        wrong += call_everything(other_) != expected_results() ? 1 : 0;
        wrong += ask_everything_of(ours_, second_) != expected_results() ? 1 : 0;
      } catch (const fc::error& e) {
        ADD_FAILURE() << e.what();
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(different_builds, through_lanes_and_posts) {
  const fc::lane stream(other_);
  EXPECT_EQ(fc::sync(stream, triple, 5), 15);
  fc::post(other_, triple, 5);
  EXPECT_EQ(fc::sync(other_, triple, 6), 18);
}

TEST_P(different_builds, static_functions_of_one_name_are_never_confused) {
  // Between identical builds, each call runs the caller's own function.
  EXPECT_EQ(call_twin_of_a(ours_), 101);
  EXPECT_EQ(call_twin_of_b(ours_), 201);
  EXPECT_EQ(call_pointer_to_twin_of_a(ours_), 101);
  // Between different builds, the source file identifies the function, too.
  EXPECT_EQ(call_twin_of_a(other_), 101);
  EXPECT_EQ(call_twin_of_b(other_), 201);
  EXPECT_EQ(call_pointer_to_twin_of_a(other_), 101);
}

TEST_P(different_builds, static_functions_of_other_files_are_not_run) {
  EXPECT_EQ(call_pointer_to_lone_twin(ours_), 101);
  EXPECT_EQ(call_lone_twin(ours_), 101);
  EXPECT_THROW((void)call_lone_twin(other_), fc::unknown_function);
  try {
    EXPECT_EQ(call_pointer_to_lone_twin(other_), 101) << "another file's function ran";
  } catch (const fc::unknown_function&) {
  }
}

TEST_P(different_builds, lambdas_are_found_or_refused_never_confused) {
  // Compilers number the lambdas of a function differently.
  const std::vector<std::string> right{"2", "10", "11", "12", "13"};
  EXPECT_EQ(call_lambdas_here(ours_), right);
  const std::vector<std::string> got = call_lambdas_here(other_);
  ASSERT_EQ(got.size(), right.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != "refused") {
      EXPECT_EQ(got[i], right[i]) << "lambda " << i << ": another one ran";
    }
  }
  if (GetParam().numbers_lambdas_alike) {
    EXPECT_EQ(got, right) << "one compiler numbers them alike";
  }
}

TEST_P(different_builds, lambdas_of_one_file_are_found_or_refused) {
  EXPECT_EQ(call_lambda_of_one_file(ours_), 42);
  try {
    EXPECT_EQ(call_lambda_of_one_file(other_), 42) << "another lambda ran";
  } catch (const fc::unknown_function& e) {
    EXPECT_THAT(e.what(), HasSubstr("call_lambda_of_one_file"));
  }
}

TEST_P(different_builds, functions_that_only_one_build_has) {
  for (int again = 0; again < 2; ++again) {
    const auto e = farcall::test::thrown_by<fc::unknown_function>(
        [&] { (void)fc::sync(other_, only_on_the_host, 1); });
    ASSERT_TRUE(e);
    EXPECT_THAT(e->what(),
                AllOf(HasSubstr("different::only_on_the_host(int)"), HasSubstr("node 1")));
    EXPECT_EQ(e->node(), other_.id());
    EXPECT_THAT(text_thrown_by<fc::unknown_function>(
                    [&] { (void)fc::sync(other_, fc::fn<&only_on_the_host>, 1); }),
                AllOf(HasSubstr("only_on_the_host"), HasSubstr("node 1")));
    EXPECT_THROW((void)fc::sync(other_, [](unsigned v) { return v; }, 1U), fc::unknown_function);
    EXPECT_THROW(fc::post(other_, fc::fn<&only_on_the_host>, 1), fc::unknown_function);
  }
  EXPECT_EQ(fc::sync(ours_, only_on_the_host, 4), 4);
  EXPECT_EQ(call_everything(other_), expected_results()) << "after the refusals";
}

TEST_P(different_builds, changed_parameters) {
  EXPECT_THAT(
      text_thrown_by<fc::unknown_function>([&] { (void)call_changed_parameter(other_, true); }),
      HasSubstr("changed_parameter"));
  EXPECT_THAT(
      text_thrown_by<fc::unknown_function>([&] { (void)call_changed_parameter(other_, false); }),
      HasSubstr("changed_parameter"));
  EXPECT_EQ(call_changed_parameter(ours_, true), 1);
}

TEST_P(different_builds, changed_results) {
  EXPECT_THAT(text_thrown_by<fc::unknown_function>([&] { (void)call_changed_result(other_); }),
              HasSubstr("changed_result"));
  EXPECT_EQ(call_changed_result(ours_), 1);
}

TEST_P(different_builds, changed_layouts) {
  EXPECT_THAT(
      text_thrown_by<fc::unknown_function>([&] { (void)call_changed_struct(other_, true); }),
      HasSubstr("changed_struct"));
  EXPECT_THAT(
      text_thrown_by<fc::unknown_function>([&] { (void)call_changed_struct(other_, false); }),
      HasSubstr("changed_struct"));
  EXPECT_EQ(call_changed_struct(ours_, true), 0);
}

TEST_P(different_builds, functions_of_shared_libraries) {
  EXPECT_EQ(static_cast<std::uint64_t>(pid_of(other_)), other_.description().pid);
}

} // namespace
} // namespace different
