// SPDX-License-Identifier: Apache-2.0
#include "demangle_apart.hpp"

#include "rust_name.hpp"

#include <farcall/base/symbol_name.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace farcall::tool {
namespace {

using testing::StartsWith;

TEST(demangle_apart, demangles_names_with_high_bounds) {
  const std::string name =
      "_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_dESt10_"
      "Select1stIS8_ESt4lessIS5_ESaIS8_EE22_M_emplace_hint_uniqueIJRKSt21piecewise_construct_"
      "tSt5tupleIJOS5_EESJ_IJEEEEESt17_Rb_tree_iteratorIS8_ESt23_Rb_tree_const_iteratorIS8_EDpOT_";
  ASSERT_GT(max_demangled_bytes(name), std::uint64_t{1} << 20);
  EXPECT_THAT(readable_function(name),
              StartsWith("std::_Rb_tree_iterator<std::pair<std::string const, double> > "));
}

TEST(demangle_apart, shortens_names_that_the_library_refuses) {
  EXPECT_EQ(first_names("_ZN7farcall6detail14with_argumentsIJNS_4fn_tEE"),
            "farcall::detail::with_arguments<…>");
  EXPECT_EQ(first_names("_ZSt5applyIRZN7farcall6detail"), "std::apply<…>");
  EXPECT_EQ(first_names("_ZNKSt8functionIFvvEEclEv"), "std::function<…>");
  EXPECT_EQ(first_names("_ZZN7farcall12_GLOBAL__N_13runEvENKUlvE_clEv"),
            "farcall::(anonymous namespace)::run::{…}");
  for (const char* name : {"_Z", "_ZZZ", "_ZN", "_ZN99short", "_ZTI1x", "plain", "_Z0"})
    EXPECT_EQ(first_names(name), name);
}

TEST(demangle_apart, keeps_names_that_are_too_long) {
  EXPECT_EQ(demangle_apart("_Zno_name"), "_Zno_name");
  // Each pair has the previous one twice. The last one has gigabytes of text.
  std::string growing = "_Z1fSt4pairIiiE";
  for (const char number : std::string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    growing += std::string("S_IS") + number + "_S" + number + "_E";
  EXPECT_EQ(demangle_apart(growing), growing);
}

} // namespace
} // namespace farcall::tool
