// SPDX-License-Identifier: Apache-2.0
#include "code_kind.hpp"

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(code_kind, knows_farcall_libraries_and_programs) {
  profile seen;
  seen.threads = {{.name = "a", .program = "/usr/bin/app"}};
  const code_kinds kinds(seen);
  const auto kind = [&](const char* function, const char* module, const char* file = "") {
    return kinds.kind_of({.function = function, .module = module, .file = file});
  };
  using enum code_kind;
  EXPECT_EQ(kind("farcall::job::wait()", "/usr/bin/app"), farcall);
  EXPECT_EQ(kind("int farcall::sync<int>(node)", "/usr/bin/app"), farcall);
  EXPECT_EQ(kind("decltype(auto) farcall::fn_t<&f>::operator()<int>(int)", "/usr/bin/app"),
            farcall);
  EXPECT_EQ(kind("decltype ((f)()) std::__invoke<f>(f)", "/usr/bin/app"), library);
  EXPECT_EQ(kind("_ZN7farcall6detail1fEv", "/usr/bin/app"), farcall);
  EXPECT_EQ(kind("fc_call", "/usr/lib/libfarcall.so.0"), farcall);
  EXPECT_EQ(kind("serve<int>", "/usr/bin/app", "/usr/include/farcall/offload/serving.hpp"),
            farcall);
  EXPECT_EQ(kind("serve<int>", "/usr/bin/app", "/home/me/farcall/main.cpp"), program);
  EXPECT_EQ(kind("operator()", "/usr/bin/app", "/usr/include/c++/12/bits/std_function.h"), library);
  EXPECT_EQ(kind("main", "/usr/bin/app"), program);
  EXPECT_EQ(kind("farcallous", "/usr/bin/app"), program);
  EXPECT_EQ(kind("solve(farcall::node)", "/home/me/libsolve.so"), program);
  EXPECT_EQ(kind("void std::sort<int*>(int*, int*)", "/usr/bin/app"), library);
  EXPECT_EQ(kind("memcpy", "/usr/lib/x86_64-linux-gnu/libc.so.6"), library);
  EXPECT_EQ(kind("clock_gettime", "[vdso]"), library);
  EXPECT_EQ(kind("0x1234", ""), library);
}

TEST(code_kind, knows_functions_that_pass_calls_on) {
  EXPECT_TRUE(passes_call_on("int std::__invoke_impl<int, int (*&)()>(std::__invoke_other, int)"));
  EXPECT_TRUE(
      passes_call_on("std::_Function_handler<void (), f>::_M_invoke(std::_Any_data const&)"));
  EXPECT_FALSE(passes_call_on("void std::sort<int*>(int*, int*)"));
}

} // namespace
} // namespace farcall::tool
