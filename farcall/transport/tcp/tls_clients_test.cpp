// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/tls_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Tests handshakes of clients with their own keys.
namespace farcall::tcp::tls_clients_test {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr std::string_view other_key = "another key, just as long as it!";
constexpr std::string_view third_key = "a third one, and the last of all";

struct name_and_key {
  const char* name;
  std::string_view key = key_text;
};

identity keys(std::initializer_list<name_and_key> all) {
  std::vector<named_key> made;
  for (const name_and_key& k : all)
    made.push_back({k.name, secret::copy_of(bytes_of(k.key))});
  return tls_identity::with_keys(std::move(made));
}

TEST(tls_clients, are_known_by_their_keys) {
  const identity server = keys({{"alice"}, {"bob", other_key}, {"", third_key}});
  const std::pair<identity, const char*> all[] = {{keys({{"alice"}}), "alice"},
                                                  {keys({{"bob", other_key}}), "bob"},
                                                  {keys({{"", third_key}}), ""}};
  for (const auto& [client, name] : all) {
    const ends both = connected(client, server);
    EXPECT_EQ(both.server->peer_name(), "") << "nobody has proved anything yet";
    shake_hands(both);
    EXPECT_TRUE(both.client->is_established()) << both.client->failure();
    EXPECT_TRUE(both.server->is_established()) << both.server->failure();
    EXPECT_EQ(both.server->peer_name(), name);
    EXPECT_EQ(both.client->peer_name(), "");
  }
}

TEST(tls_clients, may_use_the_old_and_the_new_key) {
  const identity server = keys({{"alice"}, {"alice", other_key}});
  for (const std::string_view held : {key_text, other_key}) {
    const ends both = connected(keys({{"alice", held}}), server);
    shake_hands(both);
    EXPECT_TRUE(both.server->is_established()) << both.server->failure();
    EXPECT_EQ(both.server->peer_name(), "alice");
  }
  EXPECT_FALSE(refused(keys({{"alice", third_key}}), server).client->is_established());
}

TEST(tls_clients, that_are_not_known_are_refused_by_name) {
  const identity server = keys({{"alice"}});
  const ends both = refused(keys({{"mallory", other_key}}), server);
  EXPECT_THAT(both.client->failure(), HasSubstr("does not take the key of client mallory"));
  EXPECT_THAT(both.server->failure(), HasSubstr("\"mallory/"));
  EXPECT_EQ(both.server->peer_name(), "");
  // A server without clients refuses everybody.
  EXPECT_FALSE(refused(keys({{"alice"}}), keys({})).client->is_established());
  EXPECT_FALSE(refused(keys({}), server).client->is_established());
}

TEST(tls_clients, cannot_use_another_clients_name) {
  const identity server = keys({{"alice"}, {"bob", other_key}});
  EXPECT_THAT(refused(keys({{"alice", other_key}}), server).server->failure(),
              HasSubstr("\"alice/"));
  // A client's key is not valid for the group, nor the group's key for a client.
  EXPECT_FALSE(refused(keys({{""}}), server).client->is_established());
  EXPECT_FALSE(refused(keys({{"alice"}}), keys({{""}})).client->is_established());
}

/// The right number of a key, by chance or by lying, does not replace the key.
TEST(tls_clients, prove_that_they_have_the_key) {
  const identity server = keys({{"alice"}});
  // A server without the key still learns the client's identity.
  const ends seen = refused(keys({{"alice"}}), keys({{"bob", other_key}}));
  const std::string words = seen.server->failure();
  const std::size_t at = words.find("alice/");
  ASSERT_NE(at, std::string::npos) << words;
  const std::string said = words.substr(at, std::string_view("alice/01234567").size());
  EXPECT_EQ(refused(key(other_key, said), server).server->peer_name(), "");
}

TEST(tls_clients, cannot_write_control_sequences_into_logs) {
  const ends both = refused(key(key_text, "\x1b[2Jx\n[forged]"), keys({{"alice"}}));
  EXPECT_THAT(both.server->failure(),
              AllOf(HasSubstr("[2Jx"), Not(HasSubstr("\x1b")), Not(HasSubstr("\n"))));
}

TEST(tls_clients, cannot_pose_as_servers) {
  const ends both = refused(keys({{"alice"}}), keys({{"bob", other_key}}));
  EXPECT_FALSE(both.client->is_established());
}

TEST(tls_clients, keys_that_everybody_knows_are_refused) {
  EXPECT_THAT(
      [] {
        (void)keys({{"alice", std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                               "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                                               32)}});
      },
      ThrowsMessage<setting_error>(HasSubstr("zeros")));
  EXPECT_THAT([] { (void)keys({{"alice"}, {"alice"}}); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr("alice"), HasSubstr("two keys"))));
}

} // namespace
} // namespace farcall::tcp::tls_clients_test
