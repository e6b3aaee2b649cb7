// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/self/self.hpp>

#include <tests/conformance/pairs.hpp>

#include <array>
#include <optional>
#include <span>

namespace farcall::conformance {

// One process: a node cannot call itself from another process.
INSTANTIATE_TEST_SUITE_P(self, transport_conformance,
                         ::testing::Values(backend{.place = "threads", .make = &self_pair}));

TEST(self_lanes, stay_until_both_ends_are_closed) {
  std::array<doorbell, 4> doorbells{};
  const auto own =
      self::make({.self = 0, .ring_bytes = min_ring, .doorbells = std::span(doorbells)});
  endpoint opened = own->open(0, {});
  const std::optional<endpoint> accepted = own->accept();
  ASSERT_TRUE(accepted);
  // Like a node that ends before it has served a call.
  own->close(*accepted);
  EXPECT_FALSE(has_record(opened.in, opened.in.tail));
  EXPECT_NE(try_reserve(opened.out, 64), nullptr);
  EXPECT_FALSE(own->is_closed(*accepted));
  own->close(opened);
  EXPECT_TRUE(own->is_closed(*accepted));
}

} // namespace farcall::conformance
