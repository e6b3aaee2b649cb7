// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/symbol_name.hpp>

#include <gtest/gtest.h>

#include <string>

namespace farcall::test::symbol_name_test {
namespace {

TEST(symbol_names, are_demangled) {
  EXPECT_EQ(demangle_symbol("_ZN7farcall8demangleEPKc"), "farcall::demangle(char const*)");
}

TEST(symbol_names, are_no_encodings_of_types) {
  for (const char* name :
       {"f", "g", "d", "i", "x", "a", "h", "n", "Pi", "St", "PKc", "", "_Z", "main"})
    EXPECT_EQ(demangle_symbol(name), name);
}

/// Returns the symbol of f(pr<T, T>*), where T is again such a type, to a depth: 2^depth arguments.
std::string nested_twice(int depth) {
  std::string name = "_Z1fP2pr";
  for (int i = 1; i < depth; ++i)
    name += "IS_";
  name += "IiiE";
  for (int i = 0; i < depth - 1; ++i)
    name += "S" + std::string(1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i]) + "_E";
  return name;
}

TEST(symbol_names, are_not_demangled_to_more_than_a_mebibyte) {
  EXPECT_EQ(demangle_symbol(nested_twice(2)), "f(pr<pr<int, int>, pr<int, int> >*)");
  for (int depth = 2; depth < 10; ++depth) {
    const std::string name = nested_twice(depth);
    const std::string readable = demangle(name.c_str());
    EXPECT_NE(readable, name);
    EXPECT_GE(max_demangled_bytes(name), readable.size()) << name;
  }
  const std::string endless = nested_twice(36);
  EXPECT_EQ(demangle_symbol(endless), endless) << "some hundred gigabytes";
}

TEST(symbol_names, with_numbers_of_any_size_have_a_bound) {
  for (const char* name : {"_Z", "_Z999999999f", "_Z18446744073709551616f", "_ZSZZZZZZZZZZZ_",
                           "_ZS_", "_ZT_", "_ZDpDpDpDpT_", "_ZIiiEDpDpDpDpDpDpDpDpDpDpDpDpT_T_T_"})
    EXPECT_GT(max_demangled_bytes(name), 0U) << name;
}

} // namespace
} // namespace farcall::test::symbol_name_test
