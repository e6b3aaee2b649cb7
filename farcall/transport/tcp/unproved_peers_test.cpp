// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/unproved_peers.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace farcall::tcp::unproved_peers_test {
namespace {

TEST(connection_sources, sources_are_addresses_without_ports) {
  EXPECT_EQ(source_of("192.0.2.1:5000"), source_of("192.0.2.1:6000"));
  EXPECT_NE(source_of("192.0.2.1:5000"), source_of("192.0.2.2:5000"));
  EXPECT_EQ(source_of("[::ffff:192.0.2.1]:5000"), source_of("192.0.2.1:6000"));
  EXPECT_EQ(source_of("an unknown address"), source_of("an unknown address"));
}

TEST(connection_sources, a_site_of_ipv6_is_one_source) {
  EXPECT_EQ(source_of("[2001:db8:1:2::3]:5000"), source_of("[2001:db8:1:2:ffff::9]:6000"));
  EXPECT_EQ(source_of("[2001:db8:1:2::3]:5000"), source_of("[2001:db8:1:3::3]:5000"));
  EXPECT_NE(source_of("[2001:db8:1:2::3]:5000"), source_of("[2001:db8:2:2::3]:5000"));
  EXPECT_EQ(source_of("[fe80::1%eth0]:5000"), source_of("[fe80::2]:6000"));
}

TEST(connection_sources, the_loopback_network_is_one_source) {
  EXPECT_EQ(source_of("127.0.0.1:5000"), source_of("127.11.250.7:6000"));
  EXPECT_EQ(source_of("127.0.0.1:5000"), source_of("[::1]:5000"));
  EXPECT_EQ(source_of("127.0.0.1:5000"), source_of("[::ffff:127.1.2.3]:5000"));
  EXPECT_NE(source_of("127.0.0.1:5000"), source_of("128.0.0.1:5000"));
}

TEST(connection_sources, connections_stay_while_there_is_space) {
  connection_sources all(3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all.displaced(), std::nullopt);
    all.add(i, "a");
  }
  EXPECT_TRUE(all.displaced());
  all.remove(1, "a");
  EXPECT_EQ(all.displaced(), std::nullopt);
  all.remove(1, "a");
  all.remove(7, "b");
  all.add(3, "a");
  EXPECT_TRUE(all.displaced());
}

TEST(connection_sources, a_flood_displaces_itself) {
  connection_sources all(128);
  all.add(0, "who has few");
  all.add(1, "who has few");
  std::set<std::uint64_t> there;
  bool is_first_always = true;
  for (std::uint64_t i = 2; i < 10'000; ++i) {
    if (const auto out = all.displaced()) {
      ASSERT_TRUE(there.contains(*out)) << *out;
      is_first_always = is_first_always && *out == *there.begin();
      there.erase(*out);
      all.remove(*out, "flood");
    }
    all.add(i, "flood");
    there.insert(i);
  }
  EXPECT_EQ(there.size(), 126U);
  // Displacing always the oldest would let a local flood leave no connection the time to send its
  // request.
  EXPECT_FALSE(is_first_always);
}

TEST(connection_sources, all_equally_large_sources_can_be_displaced) {
  connection_sources all(8);
  for (std::uint64_t i = 0; i < 8; ++i)
    all.add(i, std::to_string(i));
  std::set<std::uint64_t> displaced;
  for (int i = 0; i < 1000; ++i)
    displaced.insert(all.displaced().value());
  EXPECT_EQ(displaced.size(), 8U);
}

TEST(unproved_peers, keep_the_owners_data_of_each) {
  unproved_peers<std::unique_ptr<int>> all(2);
  EXPECT_EQ(all.first(), std::nullopt);
  const std::uint64_t one = all.add("192.0.2.1:5000", std::make_unique<int>(1));
  const std::uint64_t two = all.add("192.0.2.1:6000", std::make_unique<int>(2));
  EXPECT_EQ(all.first(), one);
  ASSERT_NE(all.find(two), nullptr);
  EXPECT_EQ(**all.find(two), 2);
  EXPECT_TRUE(all.displaced());
  EXPECT_EQ(*all.take(one).value(), 1);
  EXPECT_EQ(all.take(one), std::nullopt);
  EXPECT_EQ(all.find(one), nullptr);
  EXPECT_EQ(all.displaced(), std::nullopt);
  EXPECT_EQ(all.first(), two);
  EXPECT_EQ(all.size(), 1U);
  EXPECT_EQ(all.added(), 2U);
  EXPECT_NE(all.add("192.0.2.2:5000", nullptr), one);
}

} // namespace
} // namespace farcall::tcp::unproved_peers_test
