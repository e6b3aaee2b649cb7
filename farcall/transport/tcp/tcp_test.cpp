// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/tls.hpp>
#include <tests/conformance/pairs.hpp>

namespace farcall::conformance {

namespace {

// Each lane takes two descriptors if both nodes are in one process.
constexpr std::uint32_t lanes = 100;

using pair_maker = std::unique_ptr<node_pair> (*)(std::uint32_t ring_bytes);

/// Tests in threads and in processes. A sanitizer's runtime cannot fork a process that already has
/// the loop's thread.
std::vector<backend> places(pair_maker make) {
  std::vector<backend> all{
      {.place = "threads", .make = make, .many_lanes = lanes, .comes_back = false}};
  if (!test::under_sanitizer) {
    all.push_back({.place = "processes", .make = make, .many_lanes = lanes, .comes_back = false});
  }
  return all;
}

/// Empty in a build without OpenSSL.
std::vector<backend> encrypted_places() {
  return farcall::tcp::tls_is_built_in() ? places(&tls_pair) : std::vector<backend>{};
}

} // namespace

INSTANTIATE_TEST_SUITE_P(tcp, transport_conformance, ::testing::ValuesIn(places(&tcp_pair)));
INSTANTIATE_TEST_SUITE_P(later_tcp, transport_conformance,
                         ::testing::ValuesIn(places(&later_tcp_pair)));
INSTANTIATE_TEST_SUITE_P(tls, transport_conformance, ::testing::ValuesIn(encrypted_places()));

} // namespace farcall::conformance
