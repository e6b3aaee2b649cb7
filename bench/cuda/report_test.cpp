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
  out.set_floor(100);
  out.offer_launch(5000);
  out.offer_launch(4000);
  out.offer_launch(6000);
  out.add({.what = "empty, \"pure\"",
           .unit = "ns",
           .value = {.p1 = 190, .p50 = 200, .p99 = 210, .samples = 7},
           .is_call = true});
  out.add({.what = "put",
           .unit = "GB/s",
           .value = {.p1 = 1, .p50 = 2, .p99 = 3, .samples = 7},
           .ratio = 0.5,
           .against = "memcpy"});
  (void)testing::internal::GetCapturedStdout();
  EXPECT_EQ(out.launch_ns(), 4000);
  ASSERT_NE(out.find("put"), nullptr);
  EXPECT_EQ(out.find("get"), nullptr);
  EXPECT_EQ(out.csv(), "group,what,unit,p1,p50,p99,samples,to_floor,to_best_launch,ratio,against\n"
                       "calls,\"empty, \"\"pure\"\"\",ns,190,200,210,7,2,0.05,,\n"
                       "calls,put,GB/s,1,2,3,7,,,0.5,memcpy\n");
  const std::string document = out.document().dump();
  EXPECT_THAT(document, HasSubstr("\"cpu\":\"one\""));
  EXPECT_THAT(document, HasSubstr("\"to_floor\":2.0,\"to_best_launch\":0.05}"));
  EXPECT_THAT(document, HasSubstr("\"ratio\":0.5,\"against\":\"memcpy\"}"));
}

} // namespace
} // namespace farcall::bench
