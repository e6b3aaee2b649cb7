// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tcp::node_addresses_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

socket_address numeric(const std::string& text) { return numeric_address(text, "it"); }

std::vector<std::string> texts_of(const std::vector<socket_address>& all) {
  std::vector<std::string> texts;
  texts.reserve(all.size());
  for (const socket_address& a : all)
    texts.push_back(a.text());
  return texts;
}

card card_with(const std::vector<std::byte>& bytes) {
  card c;
  c.transports["tcp"] = bytes;
  return c;
}

TEST(node_addresses_test, are_used_in_networks_where_they_are_valid) {
  node_addresses n{"its", "its-server:7070", {}};
  n.addresses = {
      address_in("host", numeric("127.0.0.1:2222")), address_in("its", numeric("127.0.0.1:7070")),
      address_in("its", numeric("192.0.2.7:7070")), address_in("host", numeric("192.0.2.7:7070"))};
  EXPECT_THAT(texts_of(n.seen_from("host")), ElementsAre("127.0.0.1:2222", "192.0.2.7:7070"));
  EXPECT_THAT(texts_of(n.seen_from("its")), ElementsAre("127.0.0.1:7070", "192.0.2.7:7070"));
  EXPECT_THAT(texts_of(n.seen_from("another")), ElementsAre("192.0.2.7:7070"));
  EXPECT_THAT(texts_of(n.seen_from("")), ElementsAre("192.0.2.7:7070"));
}

TEST(node_addresses_test, leading_to_this_machine_are_not_dialled) {
  const std::vector<socket_address> ours = interface_addresses(7070);
  node_addresses n{"its", "", {address_in("its", numeric("192.0.2.7:7070"))}};
  for (const socket_address& a : ours)
    n.addresses.push_back({a.text(), ""});
  EXPECT_THAT(texts_of(n.to_dial_from("ours")), ElementsAre("192.0.2.7:7070"));
  // The host has reached the node at this machine's address, as through a tunnel.
  n.addresses.push_back({ours.front().text(), "ours"});
  EXPECT_EQ(n.to_dial_from("ours").size(), 2U);
  EXPECT_EQ(n.to_dial_from("its").size(), 1 + ours.size());
}

TEST(node_addresses_test, on_loopback_of_unknown_networks_are_not_used) {
  const node_addresses n{"", "", {address_in("", numeric("127.0.0.1:7070"))}};
  EXPECT_THAT(n.seen_from(""), IsEmpty());
}

TEST(node_addresses_test, are_read_from_the_card) {
  const node_addresses told{"its", "name:7070", {address_in("its", numeric("[::1]:7070"))}};
  const node_addresses got = node_addresses::of(card_with(told.encode()));
  EXPECT_EQ(got.network, told.network);
  EXPECT_EQ(got.server, told.server);
  EXPECT_EQ(got.addresses, told.addresses);
  EXPECT_THAT(node_addresses::of(card{}).addresses, IsEmpty());
}

TEST(node_addresses_test, reject_malformed_bytes_of_peers) {
  const std::vector<std::byte> good =
      node_addresses{"its", "s:1", {address_in("its", numeric("192.0.2.7:7070"))}}.encode();
  for (std::size_t bytes = 1; bytes < good.size(); ++bytes) {
    const std::vector<std::byte> part(good.begin(), good.begin() + static_cast<long>(bytes));
    EXPECT_THROW((void)node_addresses::of(card_with(part)), malformed_message) << bytes;
  }
  std::vector<std::byte> more = good;
  more.push_back({});
  EXPECT_THROW((void)node_addresses::of(card_with(more)), malformed_message);
  const node_addresses by_name{"", "", {{"localhost:7070", ""}}};
  EXPECT_THROW((void)by_name.seen_from(""), malformed_message);
}

TEST(node_addresses_test, are_limited_to_the_size_of_a_card) {
  node_addresses all;
  for (int i = 0; i < 200; ++i)
    all.addresses.push_back(address_in("", numeric("[2001:db8::1]:" + std::to_string(1000 + i))));
  EXPECT_EQ(node_addresses::of(card_with(all.encode())).addresses.size(), 32U);
  EXPECT_LE(all.encode().size(), 4096U);
}

TEST(reachable_addresses_test, replace_wildcards_by_interface_addresses) {
  EXPECT_THAT(texts_of(reachable_addresses({{"127.0.0.1", 7070}, {"127.0.0.1", 7070}})),
              ElementsAre("127.0.0.1:7070"));
  const std::vector<socket_address> all = reachable_addresses({{"0.0.0.0", 7070}});
  for (const socket_address& a : all) {
    EXPECT_FALSE(a.is_any());
    EXPECT_EQ(a.family(), AF_INET);
    EXPECT_EQ(a.port(), 7070);
  }
}

} // namespace
} // namespace farcall::tcp::node_addresses_test
