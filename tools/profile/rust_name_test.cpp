// SPDX-License-Identifier: Apache-2.0
#include "rust_name.hpp"

#include <string>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

constexpr std::size_t longest = 10'000;

std::string decoded(const std::string& symbol) {
  return rust_name(symbol, longest).value_or("no name");
}

// Symbols made by "rustc -C symbol-mangling-version=v0".
TEST(rust_names, that_rustc_makes_are_decoded) {
  EXPECT_EQ(decoded("_RINvNtCs1VQLGaR7mhK_5probe5inner3sumKj3_EB4_"), "probe::inner::sum::<3>");
  EXPECT_EQ(decoded("_RINvNtCs1VQLGaR7mhK_5probe5inner5applyNCNvB4_4main0EB4_"),
            "probe::inner::apply::<probe::main::{closure#0}>");
  EXPECT_EQ(decoded("_RNvCs1VQLGaR7mhK_5probe4main"), "probe::main");
  EXPECT_EQ(decoded("_RNvMs_Cs1VQLGaR7mhK_5probeINtB4_6SquaredE4sideB4_"),
            "<probe::Square<f64>>::side");
  EXPECT_EQ(decoded("_RNvXCs1VQLGaR7mhK_5probeINtB2_6SquaredENtB2_5Shape4area"),
            "<probe::Square<f64> as probe::Shape>::area");
  EXPECT_EQ(decoded("_RINvNtNtCsjrHSEGnQ3l9_3std3sys9backtrace28___rust_begin_short_"
                    "backtraceFEuuECs1VQLGaR7mhK_5probe"),
            "std::sys::backtrace::__rust_begin_short_backtrace::<fn(), ()>");
  EXPECT_EQ(decoded("_RNSNvYNCINvNtCsjrHSEGnQ3l9_3std2rt10lang_startuE0INtNtNtCsgEmfK2I1SDS_"
                    "4core3ops8function6FnOnceuE9call_once6vtableCs1VQLGaR7mhK_5probe"),
            "<std::rt::lang_start<()>::{closure#0} as "
            "core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}");
  EXPECT_EQ(decoded("_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeINtNtCsgvbsrvnw3yD_"
                    "9hashbrown10scopeguard10ScopeGuardQNtNtBL_3raw13RawTableInnerNCNvMsa_B1A_B1y_"
                    "15rehash_in_place0EECs1VQLGaR7mhK_5probe"),
            "core::ptr::drop_in_place::<hashbrown::scopeguard::ScopeGuard<&mut "
            "hashbrown::raw::RawTableInner, "
            "<hashbrown::raw::RawTableInner>::rehash_in_place::{closure#0}>>");
  EXPECT_EQ(decoded("_RINvYNtNtNtCsjrHSEGnQ3l9_3std4hash6random11RandomStateNtNtCsgEmfK2I1SDS_"
                    "4core4hash11BuildHasher8hash_oneRNtNtCslNYArtu3iFV_"
                    "5alloc6string6StringECs1VQLGaR7mhK_5probe"),
            "<std::hash::random::RandomState as "
            "core::hash::BuildHasher>::hash_one::<&alloc::string::String>");
}

// Examples of the scheme's documentation, and rules that these do not cover.
TEST(rust_names, are_decoded_by_each_rule) {
  EXPECT_EQ(decoded("_RNvC7mycrate3foo"), "mycrate::foo");
  EXPECT_EQ(decoded("_RNvCs15kBYyAo9fc_7mycrate3foo"), "mycrate::foo");
  EXPECT_EQ(decoded("_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo"), "<mycrate::Example>::foo");
  EXPECT_EQ(decoded("_RNvXC7mycrateNtB2_7ExampleNtB2_5Trait3foo"),
            "<mycrate::Example as mycrate::Trait>::foo");
  EXPECT_EQ(decoded("_RNvYNtC7mycrate7ExampleNtB4_5Trait3foo"),
            "<mycrate::Example as mycrate::Trait>::foo");
  EXPECT_EQ(decoded("_RNCNvC7mycrate4main0"), "mycrate::main::{closure#0}");
  EXPECT_EQ(decoded("_RNCNvC7mycrate4mains0_0"), "mycrate::main::{closure#2}");
  EXPECT_EQ(decoded("_RNSNvC1a1b6vtable"), "a::b::{shim:vtable#0}");
  EXPECT_EQ(decoded("_RINvC1a1fNtC1b1TE"), "a::f::<b::T>");
  EXPECT_EQ(decoded("_RINvC1a1fINtC1b1TlEE"), "a::f::<b::T<i32>>");
  EXPECT_EQ(decoded("_RINvC1a1fAhj8_E"), "a::f::<[u8; 8]>");
  EXPECT_EQ(decoded("_RINvC1a1fSeTaETlmEuE"), "a::f::<[str], (i8,), (i32, u32), ()>");
  EXPECT_EQ(decoded("_RINvC1a1fRdQfPcObE"), "a::f::<&f64, &mut f32, *const char, *mut bool>");
  EXPECT_EQ(decoded("_RINvC1a1fRL_dE"), "a::f::<&f64>");
  EXPECT_EQ(decoded("_RINvC1a1fL_E"), "a::f::<'_>");
  EXPECT_EQ(decoded("_RINvC1a1fFlEuE"), "a::f::<fn(i32)>");
  EXPECT_EQ(decoded("_RINvC1a1fFUKClEmE"), "a::f::<unsafe extern \"C\" fn(i32) -> u32>");
  EXPECT_EQ(decoded("_RINvC1a1fFG_RL0_lEuE"), "a::f::<for<'a> fn(&'a i32)>");
  EXPECT_EQ(decoded("_RINvC1a1fDNtC1b1TEL_E"), "a::f::<dyn b::T>");
  EXPECT_EQ(decoded("_RINvC1a1fDNtC1b1Tp4ItemlNtC1b4SendEL_E"),
            "a::f::<dyn b::T<Item = i32> + b::Send>");
  EXPECT_EQ(decoded("_RINvC1a1fDINtC1b1TmEp4ItemlEL_E"), "a::f::<dyn b::T<u32, Item = i32>>");
  EXPECT_EQ(decoded("_RINvC1a1fKj2a_Kln7_Kb1_Kc61_KpE"), "a::f::<42, -7, true, 'a', _>");
  EXPECT_EQ(decoded("_RINvC1a1fKo123456789abcdef01_E"), "a::f::<0x123456789abcdef01>");
  EXPECT_EQ(decoded("_RNvC1au8gdel_5qa"), "a::punycode{gdel-5qa}");
  EXPECT_EQ(decoded("_RINvC1a1flEC1b"), "a::f::<i32>"); // instantiated in b
  EXPECT_EQ(decoded("_RNvC1a1f.llvm.123"), "a::f");
  EXPECT_EQ(decoded("_RNvC1a1f$tlv$init"), "a::f");
}

TEST(rust_names, are_none_of_other_symbols_and_of_damaged_ones) {
  const std::string whole = "_RINvNtC1a1b1fFG_RL0_DINtC1b1TmEp4ItemlEL_EmKj2a_NtB4_1cE";
  ASSERT_NE(decoded(whole), "no name");
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(decoded(whole.substr(0, length)), "no name") << length;
  for (const char* symbol :
       {"main", "_Z1fv", "_R", "_RNvC1a", "_RNvC9a1f", "_RNvC99999999999999999999a1f", "_R0NvC1a1f",
        "_RNvC1a1fZ", "_RNvB_1f", "_RB0_", "_RINvC1a1fB9_E", "_RINvC1a1fL0_E", "_RINvC1a1fKb2_E",
        "_RINvC1a1fFGzzzzzzzzzz_EuE", "_RINvC1a1fKjg_E", "_RINvC1a1fDNtC1b1TEE"})
    EXPECT_EQ(decoded(symbol), "no name") << symbol;
  EXPECT_EQ(decoded("_R" + std::string(1000, 'S')), "no name");
  EXPECT_EQ(decoded("_RM" + std::string(1000, 'S') + "l"), "no name");
}

// Each pair doubles the one before: forty pairs would be 10^12 letters.
TEST(rust_names, that_grow_are_refused) {
  std::string type = "l";
  std::string symbol = "MC1a" + std::string(40, 'T') + "l";
  const auto base_62 = [](std::size_t value) {
    const std::string digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return value == 0 ? std::string("_") : std::string(1, digits[value - 1]) + "_";
  };
  for (std::size_t i = 40; i > 0; --i)
    symbol += "B" + base_62(4 + i) + "E";
  EXPECT_EQ(decoded("_R" + symbol), "no name");
  EXPECT_EQ(decoded("_RMC1aTTlB5_EB4_E"), "<((i32, i32), (i32, i32))>");
}

TEST(function_names, are_readable_in_each_language) {
  EXPECT_EQ(readable_function("_RNvC7mycrate3foo"), "mycrate::foo");
  EXPECT_EQ(readable_function("_Z3fooi"), "foo(int)");
  EXPECT_EQ(readable_function("_Rest"), "_Rest");
  EXPECT_EQ(readable_function("f"), "f");
}

} // namespace
} // namespace farcall::tool
