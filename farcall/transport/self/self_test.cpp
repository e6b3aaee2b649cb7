#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/self/self.hpp>

#include <tests/conformance/pairs.hpp>

#include <array>
#include <optional>
#include <span>

namespace farcall::conformance {

// A node and itself are never two processes.
INSTANTIATE_TEST_SUITE_P(self, transport_conformance,
                         ::testing::Values(backend{.place = "threads", .make = &self_pair}));

TEST(self_lanes, stay_until_both_ends_are_closed) {
  std::array<doorbell, 4> bells{};
  const auto own =
      self::make({.self = 0, .ring_bytes = smallest_ring, .doorbells = std::span(bells)});
  endpoint opened = own->open(0, {});
  const std::optional<endpoint> accepted = own->accept();
  ASSERT_TRUE(accepted);
  // As a node does that ends before it has served anything.
  own->close(*accepted);
  EXPECT_FALSE(has_record(opened.in, opened.in.tail));
  EXPECT_NE(try_reserve(opened.out, 64), nullptr);
  EXPECT_FALSE(own->is_closed(*accepted));
  own->close(opened);
  EXPECT_TRUE(own->is_closed(*accepted));
}

} // namespace farcall::conformance
