#include "report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::bench {
namespace {

using ::testing::HasSubstr;

TEST(report, figures_stand_beside_the_floor_and_the_best_launch) {
  testing::internal::CaptureStdout();
  report out("", "");
  out.add_circumstance("cpu", "one");
  out.begin("calls");
  out.add({.what = "ping-pong", .unit = "ns", .value = {.p50 = 100}, .kind = row_kind::floor});
  out.add({.what = "slower", .unit = "ns", .value = {.p50 = 101}, .kind = row_kind::floor});
  for (const double ns : {5000.0, 4000.0, 6000.0})
    out.add({.what = "launch", .unit = "ns", .value = {.p50 = ns}, .kind = row_kind::launch});
  out.add({.what = "empty, \"pure\"",
           .unit = "ns",
           .value = {.p1 = 190, .p50 = 200, .p99 = 210, .samples = 7},
           .kind = row_kind::call});
  out.add({.what = "put",
           .unit = "GB/s",
           .value = {.p1 = 1, .p50 = 2, .p99 = 3, .samples = 7},
           .ratio = 0.5,
           .against = "memcpy"});
  (void)testing::internal::GetCapturedStdout();
  ASSERT_NE(out.best_launch(), nullptr);
  EXPECT_EQ(out.best_launch()->value.p50, 4000);
  ASSERT_NE(out.find("put"), nullptr);
  EXPECT_EQ(out.find("get"), nullptr);
  EXPECT_EQ(out.csv(),
            "group,what,unit,p1,p50,p99,samples,kind,to_floor,to_best_launch,ratio,against\n"
            "calls,ping-pong,ns,0,100,0,0,floor,1,,,\n"
            "calls,slower,ns,0,101,0,0,floor,1.01,,,\n"
            "calls,launch,ns,0,5000,0,0,launch,50,1.25,,\n"
            "calls,launch,ns,0,4000,0,0,launch,40,1,,\n"
            "calls,launch,ns,0,6000,0,0,launch,60,1.5,,\n"
            "calls,\"empty, \"\"pure\"\"\",ns,190,200,210,7,call,2,0.05,,\n"
            "calls,put,GB/s,1,2,3,7,other,,,0.5,memcpy\n");
  const std::string document = out.document().dump();
  EXPECT_THAT(document, HasSubstr("\"cpu\":\"one\""));
  EXPECT_THAT(document, HasSubstr("\"to_floor\":2.0,\"to_best_launch\":0.05}"));
  EXPECT_THAT(document, HasSubstr("\"floor\":\"ping-pong\",\"best_launch\":\"launch\""));
  EXPECT_THAT(document, HasSubstr("\"ratio\":0.5,\"against\":\"memcpy\"}"));
}

TEST(report, figures_of_an_earlier_process_are_taken_up) {
  testing::internal::CaptureStdout();
  report first("", "");
  first.begin("floor");
  first.add({.what = "flags, \"4\" warps",
             .unit = "ns",
             .value = {.p1 = 90, .p50 = 100, .p99 = 110, .samples = 3},
             .kind = row_kind::floor});
  first.add_note("has failed: line\nand line");
  report second("", "");
  second.read_csv(first.csv());
  second.begin("calls");
  second.add({.what = "empty", .unit = "ns", .value = {.p50 = 150}, .kind = row_kind::call});
  report third("", "");
  third.read_csv(second.csv());
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("  1.50 "));
  EXPECT_EQ(third.csv(), second.csv());
  EXPECT_THAT(third.csv(), HasSubstr("calls,empty,ns,0,150,0,0,call,1.5,,,\n"));
  EXPECT_THAT(third.document().dump(), HasSubstr("\"notes\":[\"floor: has failed: line\\nand"));
  testing::internal::CaptureStdout();
  third.print();
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              ::testing::AllOf(HasSubstr("\nfloor "), HasSubstr("\ncalls "), HasSubstr("  1.50 ")));
}

TEST(report, what_are_no_figures_is_refused) {
  report out("", "");
  EXPECT_THROW(out.read_csv(""), std::runtime_error);
  EXPECT_THROW(out.read_csv("a,b\n1,2\n"), std::runtime_error);
  EXPECT_THROW(out.read_csv(report("", "").csv() + "floor,flag"), std::runtime_error);
}

} // namespace
} // namespace farcall::bench
