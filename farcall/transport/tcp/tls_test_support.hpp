// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/stream_test_support.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

/// Support for tests of encrypted streams.
namespace farcall::tcp::test_support {

using identity = std::shared_ptr<const tls_identity>;

inline constexpr std::string_view key_text = "the key, which nobody may print!";
static_assert(key_text.size() == key_bytes);

inline identity key(std::string_view text = key_text, std::string name = "test") {
  return tls_identity::with_key(std::move(name), secret::copy_of(bytes_of(text)));
}

struct ends {
  std::unique_ptr<stream> client;
  std::unique_ptr<stream> server;
};

inline ends connected(const identity& of_client, const identity& of_server) {
  auto [client, server] = tcp_pair();
  return {tls_client(std::move(client), of_client), tls_server(std::move(server), of_server)};
}

/// Runs the handshake, as far as possible, from one thread.
inline void shake_hands(const ends& both) {
  bytes none(1);
  const auto has_ended = [&](stream& s) {
    const io_status status = read_into(s, none).status;
    return status == io_status::failed || (status == io_status::would_block && s.is_established());
  };
  EXPECT_TRUE(test::eventually([&] {
    const bool client = has_ended(*both.client);
    return has_ended(*both.server) && client;
  }));
}

/// Returns both ends of a handshake that must fail.
inline ends refused(const identity& of_client, const identity& of_server) {
  ends both = connected(of_client, of_server);
  shake_hands(both);
  EXPECT_FALSE(both.server->is_established());
  EXPECT_EQ(write_from(*both.server, bytes_of("x")).status, io_status::failed);
  EXPECT_EQ(end_of(*both.server), io_status::failed);
  EXPECT_EQ(end_of(*both.client), io_status::failed);
  for (const stream* s : {both.client.get(), both.server.get()}) {
    EXPECT_THAT(s->failure(), ::testing::Not(::testing::HasSubstr("nobody may print")));
    EXPECT_THAT(s->failure(), ::testing::Not(::testing::HasSubstr("6e6f626f6479")))
        << "in hexadecimal";
  }
  return both;
}

} // namespace farcall::tcp::test_support
