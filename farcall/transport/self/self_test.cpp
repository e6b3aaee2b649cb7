#include <tests/conformance/pairs.hpp>

namespace farcall::conformance {

// A node and itself are never two processes.
INSTANTIATE_TEST_SUITE_P(self, transport_conformance,
                         ::testing::Values(backend{.place = "threads", .make = &self_pair}));

} // namespace farcall::conformance
