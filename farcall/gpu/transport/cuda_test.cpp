// SPDX-License-Identifier: Apache-2.0
#include <tests/conformance/pairs.hpp>

namespace farcall::conformance {

// The process that owns a device drives it.
INSTANTIATE_TEST_SUITE_P(cuda, transport_conformance,
                         ::testing::Values(backend{.place = "threads",
                                                   .make = &cuda_pair,
                                                   .max_lanes = 32,
                                                   .comes_back = false}));

} // namespace farcall::conformance
