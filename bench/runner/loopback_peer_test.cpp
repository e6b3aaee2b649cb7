// SPDX-License-Identifier: Apache-2.0
#include "loopback_peer.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>(i % 251);
  return made;
}

TEST(loopback_peer, bytes_come_back_as_they_were_sent) {
  loopback_peer peer{choose_cores({}, {})};
  peer.connect();
  const std::vector<std::byte> there = pattern(3'000'001);
  peer.reserve(there.size());
  peer.send(there);
  std::vector<std::byte> back(there.size());
  peer.fetch(back);
  EXPECT_TRUE(back == there);
}

TEST(loopback_peer, keeps_its_buffer_over_rests_and_connections) {
  loopback_peer peer{choose_cores({}, {})};
  peer.connect();
  const std::vector<std::byte> there = pattern(100);
  peer.reserve(there.size());
  peer.send(there);
  peer.rest();
  peer.round_trip();
  peer.connect();
  peer.round_trip();
  std::vector<std::byte> back(there.size());
  peer.fetch(back);
  EXPECT_TRUE(back == there);
}

TEST(loopback_peer, one_core_for_both_ends_works_too) {
  const int only = allowed_cpus().front();
  loopback_peer peer{choose_cores(only, only)};
  const scoped_pin pin{only};
  peer.connect();
  for (int i = 0; i < 100; ++i)
    peer.round_trip();
}

} // namespace
} // namespace farcall::tool
