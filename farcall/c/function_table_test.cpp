// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/errors.hpp>
#include <farcall/c/function_table.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace farcall::c::function_table_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void run_nothing(fc_reply* /*reply*/, const void* /*bytes*/, size_t /*size*/, void* /*user*/) {}

function_table::registration with_user(int& user) { return {&run_nothing, &user}; }

TEST(function_hashes, match_the_wire_format) {
  // FNV-1a, 64 bits, as all peers compute it.
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8U);
}

TEST(function_tables, find_what_is_registered) {
  function_table t;
  int user = 0;
  EXPECT_EQ(t.find(7), nullptr);
  EXPECT_TRUE(t.add("f", 7, with_user(user)));
  ASSERT_NE(t.find(7), nullptr);
  EXPECT_EQ(t.find(7)->user, &user);
  EXPECT_EQ(t.find(8), nullptr);
}

TEST(function_tables, know_names_that_are_not_registered) {
  function_table t;
  EXPECT_EQ(t.know("f", 7), 7U);
  EXPECT_EQ(t.find(7), nullptr);
  ASSERT_NE(t.name_of(7), nullptr);
  EXPECT_EQ(*t.name_of(7), "f");
  EXPECT_EQ(t.name_of(8), nullptr);
}

TEST(function_tables, find_the_one_name_that_a_handle_says) {
  function_table t;
  constexpr fc_function other_half = fc_function{1} << 32;
  t.know("f", 7);
  t.know("g", 8 | other_half);
  EXPECT_EQ(t.name_by_handle(handle_of(7)), "f");
  EXPECT_EQ(t.name_by_handle(handle_of(8 | other_half)), "g");
  EXPECT_EQ(t.name_by_handle(handle_of(9)), "");
  t.know("h", 7 | other_half);
  EXPECT_EQ(t.name_by_handle(handle_of(7)), "");
}

TEST(function_tables, refuse_two_names_with_one_hash) {
  function_table t;
  int user = 0;
  t.add("first", 7, with_user(user));
  for (const bool is_registered : {true, false}) {
    try {
      if (is_registered) {
        t.add("second", 7, with_user(user));
      } else {
        t.know("second", 7);
      }
      FAIL() << "not refused";
    } catch (const invalid_argument& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("'first'"), HasSubstr("'second'"), HasSubstr("hash")));
    }
  }
  EXPECT_EQ(*t.name_of(7), "first");
}

TEST(function_tables, refuse_registered_and_empty_names) {
  function_table t;
  int user = 0;
  t.add("f", 7, with_user(user));
  EXPECT_THROW(t.add("f", 7, with_user(user)), invalid_argument);
  EXPECT_THROW(t.add("", 8, with_user(user)), invalid_argument);
  EXPECT_THROW(t.know("", 8), invalid_argument);
}

TEST(function_tables, register_again_what_was_taken_back) {
  function_table t;
  int first = 0;
  int second = 0;
  EXPECT_FALSE(t.remove(7));
  t.add("f", 7, with_user(first));
  const function_table::registration* const old = t.find(7);
  EXPECT_TRUE(t.remove(7));
  EXPECT_FALSE(t.remove(7));
  EXPECT_EQ(t.find(7), nullptr);
  EXPECT_EQ(old->user, &first) << "a call that has begun still uses it";
  t.add("f", 7, with_user(second));
  EXPECT_EQ(t.find(7)->user, &second);
}

TEST(function_tables, keep_all_when_they_grow_and_hashes_crowd) {
  function_table t;
  int user = 0;
  constexpr fc_function count = 1000;
  // All hashes map to the same place, in every size of the table.
  for (fc_function i = 1; i <= count; ++i)
    t.add("f" + std::to_string(i), i << 20, with_user(user));
  for (fc_function i = 1; i <= count; ++i) {
    ASSERT_NE(t.find(i << 20), nullptr) << i;
    EXPECT_EQ(*t.name_of(i << 20), "f" + std::to_string(i));
  }
  EXPECT_EQ(t.find((count + 1) << 20), nullptr);
}

TEST(function_tables, are_read_while_they_change) {
  function_table t;
  int user = 0;
  t.add("there", 1, with_user(user));
  std::atomic<bool> is_over{false};
  std::atomic<int> missed{0};
  std::jthread reader([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      if (t.find(1) == nullptr) missed.fetch_add(1, std::memory_order_relaxed);
      const auto* const flickering = t.find(2);
      if (flickering != nullptr && flickering->user != &user) {
        missed.fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
  for (fc_function i = 3; i < 2000; ++i) {
    t.add("f" + std::to_string(i), i, with_user(user));
    if (i % 2 == 0) {
      EXPECT_TRUE(t.remove(2));
    } else {
      t.add("flickering", 2, with_user(user));
    }
  }
  is_over.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(missed.load(std::memory_order_relaxed), 0);
}

} // namespace
} // namespace farcall::c::function_table_test
