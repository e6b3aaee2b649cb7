// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/caller.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/call/invoke.hpp>
#include <farcall/call/register_callables.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace farcall::test {

// Also defined in key_resolver_test.cpp: two functions of one name that differ only by their files.
static int same_name_in_two_files(int v) { return v + 1; }

/// Returns the handler of this file's function, for key_resolver_test.cpp.
am::handler_function same_name_of_the_other_file() {
  // Taking its address gives the function a symbol; otherwise it may only be inlined.
  static int (*volatile kept)(int) = &same_name_in_two_files;
  (void)kept;
  return detail::remote_call<fn_t<&same_name_in_two_files>, int, int>::self.run();
}

namespace {

using table = std::vector<std::pair<std::string, std::string>>;
using rows = std::vector<std::uint32_t>;

int entered(int v) { return v; }
double entered_too(double v) { return v; }

const entry& entry_of_entered = detail::remote_call<fn_t<&entered>, int, int>::self;
const entry& entry_of_entered_too = detail::remote_call<fn_t<&entered_too>, double, double>::self;

struct only_registered {
  int operator()(int v) const { return v; }
};

/// Compiled but never called.
[[maybe_unused]] void registers() { register_callables<only_registered>(); }

TEST(function_registries, hold_what_is_registered_and_never_called) {
  const auto& all = function_registry::instance().rows();
  const std::string name = typeid(only_registered).name();
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [&](const function_registry::row& r) {
                            return !r.name.empty() && name.ends_with(r.name);
                          }),
            1);
}

TEST(function_registries, match_equal_ones_row_by_row) {
  const table t{{"", ""}, {"a", "1"}, {"b", "1"}, {"b", "2"}};
  EXPECT_EQ(match_tables(t, t), (rows{0, 1, 2, 3}));
}

TEST(function_registries, match_by_name_and_signature) {
  const table own{{"", ""}, {"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}};
  const table peer{{"", ""}, {"0", "1"}, {"a", "1"}, {"b", "2"}, {"d", "1"}};
  EXPECT_EQ(match_tables(own, peer), (rows{0, 2, 0, 0, 4}));
  EXPECT_EQ(match_tables(peer, own), (rows{0, 0, 1, 0, 4}));
}

TEST(function_registries, never_match_what_exists_twice) {
  const table twice{{"", ""}, {"a", "1"}, {"a", "1"}, {"b", "1"}};
  const table once{{"", ""}, {"a", "1"}, {"b", "1"}};
  EXPECT_EQ(match_tables(once, twice), (rows{0, 0, 3}));
  EXPECT_EQ(match_tables(twice, once), (rows{0, 0, 0, 2}));
  EXPECT_EQ(match_tables(twice, twice), (rows{0, 0, 0, 3}));
  const table thrice{{"", ""}, {"a", "1"}, {"a", "1"}, {"a", "1"}};
  EXPECT_EQ(match_tables(once, thrice), (rows{0, 0, 0}));
}

TEST(function_registries, survive_hostile_tables) {
  const table own{{"", ""}, {"a", "1"}};
  EXPECT_EQ(match_tables(own, {}), (rows{0, 0}));
  EXPECT_EQ(match_tables({}, own), (rows{0}));
  EXPECT_EQ(match_tables({}, {}), (rows{0}));
  // Row 0 means "none", whatever name a peer gives it.
  EXPECT_EQ(match_tables(own, {{"a", "1"}}), (rows{0, 0}));
  // A peer's table may be unsorted.
  EXPECT_EQ(match_tables(own, {{"", ""}, {"z", ""}, {"a", "1"}, {"b", ""}}), (rows{0, 2}));
  // The boundary between name and signature matters.
  EXPECT_EQ(match_tables({{"", ""}, {"ab", "c"}}, {{"", ""}, {"a", "bc"}}), (rows{0, 0}));
}

TEST(function_registries, hold_every_callable_of_the_program) {
  const function_registry& t = function_registry::instance();
  ASSERT_GT(t.rows().size(), 2U);
  EXPECT_EQ(t.rows()[0].code, nullptr);
  for (std::uint32_t i = function_registry::first_index; i < t.rows().size(); ++i) {
    ASSERT_NE(t.rows()[i].code, nullptr);
    EXPECT_EQ(t.rows()[i].code->index(), i);
    EXPECT_EQ(t.rows()[i].name, t.rows()[i].code->name());
    EXPECT_FALSE(t.rows()[i].name.starts_with('*'));
  }
  EXPECT_TRUE(
      std::is_sorted(t.rows().begin() + 1, t.rows().end(), [](const auto& a, const auto& b) {
        return std::pair(a.name, a.signature) < std::pair(b.name, b.signature);
      }));
  EXPECT_NE(entry_of_entered.index(), 0U);
  EXPECT_NE(entry_of_entered.index(), entry_of_entered_too.index());
  EXPECT_NE(entry_of_entered.signature(), entry_of_entered_too.signature());
}

TEST(function_registries, names_lead_back_to_their_rows) {
  const function_registry& t = function_registry::instance();
  const table names = t.names();
  ASSERT_EQ(names.size(), t.rows().size());
  const rows matched = match_tables(names, names);
  for (std::uint32_t i = function_registry::first_index; i < names.size(); ++i) {
    // clang's numbers of lambdas mean nothing in other programs.
    const bool can_match = names[i].first.find("$_") == std::string::npos;
    EXPECT_EQ(matched[i], can_match ? i : 0) << names[i].first;
  }
}

TEST(function_registries, local_callables_are_named_by_their_file) {
  std::set<std::string> homes;
  for (const auto& [name, signature] : function_registry::instance().names()) {
    if (name.find("same_name_in_two_files") == std::string::npos) continue;
    homes.insert(name.substr(name.rfind('@') + 1));
  }
  EXPECT_EQ(homes, (std::set<std::string>{"key_resolver_test.cpp", "entry_test.cpp"}));
}

TEST(function_registries, mark_what_exists_twice) {
  int twins = 0;
  for (const function_registry::row& r : function_registry::instance().rows()) {
    if (r.name.find("same_name_in_two_files") == std::string::npos) continue;
    EXPECT_TRUE(r.twice);
    ++twins;
  }
  EXPECT_EQ(twins, 2);
}

TEST(function_registries, digest_is_the_same_each_time) {
  EXPECT_NE(function_registry::instance().digest(), 0U);
  EXPECT_EQ(function_registry::instance().digest(), function_registry::instance().digest());
}

} // namespace
} // namespace farcall::test
