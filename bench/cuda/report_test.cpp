// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::bench {
namespace {

TEST(report, a_line_of_the_table_is_quoted) {
  EXPECT_EQ(csv_line("calls", {.what = "empty, \"pure\"",
                               .unit = "ns",
                               .value = {.p1 = 190, .p50 = 200.0000001, .p99 = 210, .samples = 7},
                               .kind = row_kind::call}),
            "calls,\"empty, \"\"pure\"\"\",ns,190,200,210,7,call,,,,\n");
  EXPECT_EQ(
      csv_line("copies", {.what = "put", .unit = "GB/s", .value = {.p50 = 2}, .against = "memcpy"}),
      "copies,put,GB/s,0,2,0,0,other,,,,memcpy\n");
}

TEST(report, figures_are_added_to_those_of_an_earlier_process) {
  const std::string file = testing::TempDir() + "farcall_cuda_figures.csv";
  std::filesystem::remove(file);
  testing::internal::CaptureStdout();
  report first(file);
  first.add_circumstance("cpu", "one");
  first.begin("floor");
  first.add_call("flags", {100, 100}, row_kind::floor);
  first.add_note("has failed: line\nand line");
  report second(file);
  second.begin("calls");
  second.add_rate("window 1", {1e6});
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              ::testing::AllOf(::testing::HasSubstr("cpu        one\n"),
                               ::testing::HasSubstr("\nfloor "), ::testing::HasSubstr("1.00 M/s")));
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}),
            "group,what,unit,p1,p50,p99,samples,kind,to_floor,to_best_launch,ratio,against\n"
            ",cpu,,0,0,0,0,circumstance,,,,one\n"
            "floor,flags,ns,100,100,100,2,floor,,,,\n"
            "floor,\"has failed: line\nand line\",,0,0,0,0,note,,,,\n"
            "calls,window 1,calls/s,1e+06,1e+06,1e+06,1,other,,,,\n");
  std::filesystem::remove(file);
}

TEST(report, a_file_that_cannot_be_written_is_an_error) {
  testing::internal::CaptureStdout();
  report out("/none/figures.csv");
  EXPECT_THROW(out.add_note("lost"), std::runtime_error);
  (void)testing::internal::GetCapturedStdout();
}

} // namespace
} // namespace farcall::bench
