// SPDX-License-Identifier: Apache-2.0
#include "region.hpp"

#include <gtest/gtest.h>

namespace farcall::openmp::region_test {
namespace {

TEST(openmp_regions, are_named_by_function_and_line) {
  EXPECT_EQ(region_text("__omp_offloading_fd00_12ab34_main_l27"), "region in main, line 27");
  EXPECT_EQ(region_text("__omp_offloading_fd00_12ab34_main_l27_2"), "region in main, line 27");
  EXPECT_EQ(region_text("__omp_offloading_fd00_12ab34__Z3addi_l7"), "region in add(int), line 7");
  EXPECT_EQ(region_text("__omp_offloading_fd00_12ab34_with_lines_l9"),
            "region in with_lines, line 9");
}

TEST(openmp_regions, other_functions_have_their_own_names) {
  for (const char* name : {"f", "", "__omp_offloading_", "__omp_offloading_1_2",
                           "__omp_offloading_1_2_main", "__omp_offloading_1_2_main_l"})
    EXPECT_EQ(region_text(name), std::string("function ") + name);
}

TEST(openmp_errors, are_one_line) {
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("cannot load"), "cannot load");
  EXPECT_EQ(one_line("killed by SIGSEGV: at address 0x10, in\n    inner(int)\n    a region\n"
                     "    0x640d in libffi.so.8\n    ffi_call\n    farcall::openmp::call_region"),
            "killed by SIGSEGV: at address 0x10, in inner(int), a region");
  EXPECT_EQ(one_line("exited: in\n    f\n    An address of another node means nothing here."),
            "exited: in f");
  EXPECT_EQ(one_line("first\n\nsecond\n"), "first, second");
}

} // namespace
} // namespace farcall::openmp::region_test
