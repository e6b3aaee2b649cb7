// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/shm/receive_segment.hpp>
#include <tests/conformance/pairs.hpp>

namespace farcall::conformance {

INSTANTIATE_TEST_SUITE_P(
    shm, transport_conformance,
    ::testing::Values(
        backend{.place = "threads", .make = &shm_pair, .max_lanes = shm::receive_segment_lanes},
        backend{.place = "processes", .make = &shm_pair, .max_lanes = shm::receive_segment_lanes}));
INSTANTIATE_TEST_SUITE_P(later_shm, transport_conformance,
                         ::testing::Values(backend{.place = "threads",
                                                   .make = &later_shm_pair,
                                                   .max_lanes = shm::receive_segment_lanes}));

} // namespace farcall::conformance
