#include <tests/conformance/pairs.hpp>

namespace farcall::conformance {

// A device lives in the process that owns it.
INSTANTIATE_TEST_SUITE_P(cuda, transport_conformance,
                         ::testing::Values(backend{.place = "threads",
                                                   .make = &cuda_pair,
                                                   .most_lanes = 32,
                                                   .comes_back = false}));

} // namespace farcall::conformance
