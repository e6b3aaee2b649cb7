// SPDX-License-Identifier: Apache-2.0
#include "floor.hpp"

#include <tools/common/outcome.hpp>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(floor_meter, every_batch_gives_a_positive_sample) {
  floor_meter meter{choose_cores({}, {}), 20, 100};
  for (int i = 1; i <= 3; ++i) {
    const std::vector<double> samples = meter.measure();
    ASSERT_EQ(samples.size(), 20U);
    for (const double sample : samples)
      EXPECT_GT(sample, 0);
    EXPECT_EQ(meter.pooled().samples, 20U * static_cast<unsigned>(i));
  }
}

TEST(floor_meter, one_core_for_both_ends_works_too) {
  const int only = allowed_cpus().front();
  floor_meter meter{choose_cores(only, only), 20, 100};
  EXPECT_GT(summarize(meter.measure()).p50, 0);
}

TEST(connection_floor, every_measurement_has_its_own_connection) {
  connection_floor floor{choose_cores({}, {}), 20, 10};
  for (unsigned i = 1; i <= 3; ++i) {
    EXPECT_GT(summarize(floor.measure()).lowest, 0);
    EXPECT_EQ(floor.pooled().samples, 20U * i);
  }
}

} // namespace
} // namespace farcall::tool
