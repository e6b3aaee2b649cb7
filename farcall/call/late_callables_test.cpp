// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/entry.hpp>
#include <farcall/call/late_callables.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace farcall::test::late_callables_test {
namespace {

void run_first(am::request_context& /*request*/) noexcept {}
void run_second(am::request_context& /*request*/) noexcept {}

std::string signature() { return "late"; }

/// Makes the registry, so that later entries are not in it.
void make_registry() { (void)function_registry::instance(); }

TEST(late_callables_of_this_process, get_a_number_when_they_are_asked_for) {
  make_registry();
  EXPECT_EQ(late_callables::number_of("4late", "late"), late_callables::none);
  static const entry brought("4late", &signature, &run_first, "gcc");
  EXPECT_EQ(brought.index(), 0U);
  EXPECT_EQ(function_registry::find_late("4late", "late"), &brought);

  const std::uint32_t number = late_callables::number_of("4late", "late");
  ASSERT_LT(number, late_callables::most);
  EXPECT_EQ(late_callables::number_of("4late", "late"), number);
  EXPECT_EQ(late_callables::number_of("4late", "other"), late_callables::none);
  EXPECT_EQ(late_callables::number_of("4lat", "late"), late_callables::none);

  static const entry second("6second", &signature, &run_second, "gcc");
  const std::uint32_t other = late_callables::number_of("6second", "late");
  ASSERT_LT(other, late_callables::most);
  EXPECT_NE(other, number);
}

TEST(late_callables_of_this_process, are_not_looked_for_among_early_ones) {
  const function_registry& registry = function_registry::instance();
  ASSERT_GT(registry.rows().size(), 1U);
  const function_registry::row& r = registry.rows()[1];
  EXPECT_EQ(function_registry::find_late(r.code->name_for_peers(), r.signature), nullptr);
  EXPECT_EQ(registry.row_of(r.code->name_for_peers(), r.signature), r.twice ? 0U : 1U);
  EXPECT_EQ(registry.row_of(r.code->name_for_peers() + "x", r.signature), 0U);
  EXPECT_EQ(registry.row_of("", ""), 0U);
}

TEST(late_callables_of_this_process, with_equal_names_are_distinguished_or_refused) {
  make_registry();
  // A header's function in two libraries is one function; static functions are different ones.
  static const entry of_a_header("8inlined", &signature, &run_first, "gcc");
  static const entry of_it_again("8inlined", &signature, &run_second, "gcc");
  EXPECT_NE(late_callables::number_of("8inlined", "late"), late_callables::none);
  static const entry first("L7privat", &signature, &run_first, "gcc");
  static const entry second("L7privat", &signature, &run_second, "gcc");
  EXPECT_EQ(late_callables::number_of(first.name_for_peers(), "late"), late_callables::none);
  (void)of_a_header, (void)of_it_again, (void)second;
}

TEST(late_callables_of_this_process, have_a_handler_for_each_number) {
  const auto all = late_callables::handlers();
  ASSERT_EQ(all.size(), late_callables::most);
  EXPECT_NE(all.front(), nullptr);
  EXPECT_NE(all.front(), all.back());
}

} // namespace
} // namespace farcall::test::late_callables_test
