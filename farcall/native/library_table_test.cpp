// SPDX-License-Identifier: Apache-2.0
#include <farcall/native/library_table.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace farcall::test::library_table_test {
namespace {

using native::function;
using native::function_list;
using native::library_table;
using native::signature;
using native::unknown_library;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string path = FARCALL_NATIVE_LIBRARY;

bool is_loaded() {
  void* const found = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (found == nullptr) return false;
  ::dlclose(found);
  return true;
}

/// Calls the function `count` of the library.
int count_with(library_table& table, std::uint64_t id, std::uint32_t number) {
  const library_table::use used(table, id);
  return reinterpret_cast<int (*)()>(reinterpret_cast<std::uintptr_t>(used.at(number).code))();
}

TEST(function_lists, number_functions_in_their_order) {
  function_list list;
  EXPECT_EQ(list.at(0), nullptr);
  const signature& none = signature::of("v()");
  const signature& other = signature::of("i()");
  for (std::uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(list.add({std::to_string(i), &none, nullptr}), i);
    EXPECT_EQ(list.at(i + 1), nullptr);
  }
  for (std::uint32_t i = 0; i < 1000; ++i)
    EXPECT_EQ(list.at(i)->name, std::to_string(i));
  EXPECT_EQ(list.add({"15", &none, nullptr}), 15U);
  EXPECT_EQ(list.add({"15", &other, nullptr}), 1000U);
  EXPECT_EQ(list.at(~std::uint32_t{0}), nullptr);
}

TEST(library_tables, find_functions_until_the_library_is_unloaded) {
  library_table table;
  const std::uint64_t id = table.load(path);
  const std::uint32_t number = table.find(id, "count", "i()");
  EXPECT_EQ(table.find(id, "count", "i()"), number);
  EXPECT_NE(table.find(id, "count", "l()"), number);
  EXPECT_EQ(count_with(table, id, number), 1);
  EXPECT_EQ(count_with(table, id, number), 2);
  EXPECT_THROW(count_with(table, id, number + 100), unknown_library);
  table.unload(id);
  EXPECT_FALSE(is_loaded());
  EXPECT_THROW(count_with(table, id, number), unknown_library);
  EXPECT_THROW(table.unload(id), unknown_library);
  EXPECT_THROW(table.find(id, "count", "i()"), unknown_library);
}

TEST(library_tables, refuse_ids_that_no_library_has) {
  library_table table;
  const std::uint64_t id = table.load(path);
  const std::uint32_t number = table.find(id, "count", "i()");
  library_table of_another_process;
  EXPECT_NE(of_another_process.load(path), id);
  EXPECT_THROW(count_with(of_another_process, id, number), unknown_library);
  for (const std::uint64_t bit : {0U, 1U, 20U, 31U, 32U, 33U, 63U})
    EXPECT_THROW(count_with(table, id ^ (std::uint64_t{1} << bit), number), unknown_library) << bit;
  // An id that the place will have after the library was unloaded.
  table.unload(id);
  EXPECT_THROW(count_with(table, id + (std::uint64_t{1} << 32), number), unknown_library);
}

TEST(library_tables, give_each_library_an_id_of_its_own) {
  library_table table;
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 3000; ++i) {
    ids.push_back(table.load(path));
    table.unload(ids.back());
  }
  const std::set<std::uint64_t> different(ids.begin(), ids.end());
  EXPECT_EQ(different.size(), ids.size());
}

TEST(library_tables, have_a_limit_of_libraries) {
  library_table table;
  std::vector<std::uint64_t> ids(1024);
  for (std::uint64_t& id : ids)
    id = table.load(path);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)table.load(path); }), HasSubstr("1024 libraries"));
  table.unload(ids[77]);
  EXPECT_NO_THROW((void)table.load(path));
}

TEST(library_tables, unload_after_the_last_use) {
  library_table table;
  const std::uint64_t id = table.load(path);
  std::optional<library_table::use> first(std::in_place, table, id);
  std::optional<library_table::use> second(std::in_place, table, id);
  table.unload(id);
  EXPECT_TRUE(is_loaded());
  {
    // A refused use does not keep the library, and does not unload it.
    const library_table::use refused(table, id);
    EXPECT_THROW((void)refused.at(0), unknown_library);
  }
  first.reset();
  EXPECT_TRUE(is_loaded());
  second.reset();
  EXPECT_FALSE(is_loaded());
}

TEST(library_tables, say_why_a_library_or_function_is_missing) {
  library_table table;
  EXPECT_THAT(text_thrown_by<error>([&] { (void)table.load("/no/such.so"); }),
              HasSubstr("/no/such.so"));
  const std::uint64_t id = table.load(path);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)table.find(id, "missing", "v()"); }),
              AllOf(HasSubstr(path), HasSubstr("'missing'")));
  EXPECT_THROW((void)table.find(id, "count", "y()"), native::signature_error);
  const std::uint64_t program = table.load("");
  EXPECT_THAT(text_thrown_by<error>([&] { (void)table.find(program, "missing", "v()"); }),
              HasSubstr("the program"));
}

// Threads use a library while others unload it and load it anew. Each use gets either the function,
// or unknown_library.
TEST(library_tables, are_used_and_changed_by_threads) {
  library_table table;
  std::atomic<std::uint64_t> current{table.load(path)};
  const std::uint32_t number = table.find(current.load(std::memory_order_relaxed), "count", "i()");
  std::atomic<bool> ends{false};
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!ends.load(std::memory_order_relaxed)) {
        const std::uint64_t id = current.load(std::memory_order_acquire);
        try {
          // The function is not called: the calling threads would change one variable.
          const library_table::use used(table, id);
          if (used.at(number).name == "count") right.fetch_add(1, std::memory_order_relaxed);
        } catch (const unknown_library&) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t before = current.load(std::memory_order_relaxed);
    const std::uint64_t next = table.load(path);
    EXPECT_EQ(table.find(next, "count", "i()"), number);
    current.store(next, std::memory_order_release);
    table.unload(before);
  }
  ends.store(true, std::memory_order_relaxed);
  threads.clear();
  EXPECT_GT(right.load(std::memory_order_relaxed), 0);
  table.unload(current.load(std::memory_order_relaxed));
  EXPECT_FALSE(is_loaded());
}

} // namespace
} // namespace farcall::test::library_table_test
