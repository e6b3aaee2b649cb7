// SPDX-License-Identifier: Apache-2.0
#include "ring_only.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/memory/ring.hpp>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(ring_only, every_batch_gives_a_positive_sample) {
  // Far more records than fit into the rings.
  ring_only probe{choose_cores({}, {}), 40, 1000};
  for (unsigned i = 1; i <= 3; ++i) {
    const std::vector<double> samples = probe.measure();
    ASSERT_EQ(samples.size(), 40U);
    for (const double sample : samples)
      EXPECT_GT(sample, 0);
    EXPECT_EQ(probe.pooled().samples, 40U * i);
  }
}

TEST(ring_only, one_core_for_both_ends_works_too) {
  const int only = allowed_cpus().front();
  ring_only probe{choose_cores(only, only), 20, 100};
  EXPECT_GT(summarize(probe.measure()).p50, 0);
}

} // namespace
} // namespace farcall::tool
