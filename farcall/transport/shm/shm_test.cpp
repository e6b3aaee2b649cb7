#include <farcall/transport/shm/home.hpp>
#include <tests/conformance/pairs.hpp>

namespace farcall::conformance {

INSTANTIATE_TEST_SUITE_P(
    shm, transport_conformance,
    ::testing::Values(backend{.place = "threads", .make = &shm_pair, .most_lanes = shm::home_lanes},
                      backend{
                          .place = "processes", .make = &shm_pair, .most_lanes = shm::home_lanes}));

} // namespace farcall::conformance
