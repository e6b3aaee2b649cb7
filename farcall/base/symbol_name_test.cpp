#include <farcall/base/symbol_name.hpp>

#include <gtest/gtest.h>

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

} // namespace
} // namespace farcall::test::symbol_name_test
