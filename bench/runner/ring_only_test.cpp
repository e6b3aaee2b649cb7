// SPDX-License-Identifier: Apache-2.0
#include "ring_only.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/memory/ring.hpp>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(ring_only, every_batch_gives_a_positive_sample) {
  // Far more records than fit into the rings.
  ring_only probe{choose_cores({}, {}), 40};
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
  ring_only probe{choose_cores(only, only), 20};
  EXPECT_GT(summarize(probe.measure()).p50, 0);
}

TEST(ring_only, records_have_any_size_and_window) {
  ring_only probe{choose_cores({}, {}), 20};
  for (const std::size_t window : {1U, 16U, 1024U}) {
    for (const std::uint32_t bytes : {0U, 1U, 1024U, 4096U}) {
      probe.use({.argument_bytes = bytes, .result_bytes = 8, .window = window}, 2000);
      EXPECT_GT(summarize(probe.measure()).lowest, 0) << window << ", " << bytes;
    }
  }
  // Longer than the longest record of a lane.
  probe.use({.argument_bytes = 1U << 20, .result_bytes = 1U << 20}, 100);
  EXPECT_GT(summarize(probe.measure()).lowest, 0);
}

} // namespace
} // namespace farcall::tool
