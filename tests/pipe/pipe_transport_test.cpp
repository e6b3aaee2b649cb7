// SPDX-License-Identifier: Apache-2.0
#include <tests/conformance/pairs.hpp>

namespace farcall::conformance {

INSTANTIATE_TEST_SUITE_P(
    pipe, transport_conformance,
    ::testing::Values(
        backend{.place = "threads", .make = &pipe_pair, .many_lanes = 100, .comes_back = false},
        backend{.place = "processes", .make = &pipe_pair, .many_lanes = 100, .comes_back = false}));

} // namespace farcall::conformance
