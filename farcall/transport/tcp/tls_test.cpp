// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/hmac.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/tls_test_support.hpp>
#include <tests/sanitizer.hpp>

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <openssl/crypto.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tcp::tls_test {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

ends established() {
  ends both = connected(key(), key());
  shake_hands(both);
  EXPECT_TRUE(both.client->is_established()) << both.client->failure();
  EXPECT_TRUE(both.server->is_established()) << both.server->failure();
  return both;
}

/// Other threads may still use OpenSSL, and forked processes run exit() handlers with locks that
/// are never unlocked.
TEST(openssl, is_not_cleaned_up_after_making_proofs) {
  const auto end = [] {
    // Registered before OpenSSL could register a handler, so that it runs afterwards.
    std::atexit([] { ::_exit(OPENSSL_init_crypto(0, nullptr) == 1 ? 0 : 1); });
    (void)hmac_of(secret::random(key_bytes), bytes_of("anything"));
    std::exit(2); // NOLINT(concurrency-mt-unsafe): there is no other thread
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "");
}

TEST(tls, is_built_in) { EXPECT_TRUE(tls_is_built_in()); }

TEST(tls, carries_bytes_both_ways) {
  auto [client, server] = established();
  ASSERT_EQ(write_all(*client, bytes_of("there")), io_status::done);
  EXPECT_EQ(received(*server, 5), bytes_of("there"));
  ASSERT_EQ(write_all(*server, bytes_of("and back")), io_status::done);
  EXPECT_EQ(received(*client, 8), bytes_of("and back"));
}

TEST(tls, the_handshake_runs_inside_the_first_write_and_read) {
  auto [client, server] = connected(key(), key());
  EXPECT_FALSE(client->is_established());
  EXPECT_EQ(write_from(*client, bytes_of("hello")).status, io_status::would_block);
  EXPECT_TRUE(client->write_wants_read());
  std::thread reader([&from = *server] { EXPECT_EQ(received(from, 5), bytes_of("hello")); });
  EXPECT_EQ(write_all(*client, bytes_of("hello")), io_status::done) << client->failure();
  reader.join();
  EXPECT_TRUE(client->is_established());
  EXPECT_TRUE(server->is_established());
  EXPECT_FALSE(client->write_wants_read());
  EXPECT_FALSE(client->read_wants_write());
}

TEST(tls, works_on_a_socket_that_is_still_connecting) {
  const auto listeners = listen_on({"127.0.0.1", 0});
  const auto client =
      tls_client(start_connect(resolve(local_address(listeners[0].get()))[0]), key());
  std::optional<unique_fd> got;
  ASSERT_TRUE(
      test::eventually([&] { return (got = accept_from(listeners[0].get())).has_value(); }));
  const auto server = tls_server(std::move(*got), key());
  std::thread writer([&] { EXPECT_EQ(write_all(*client, bytes_of("hello")), io_status::done); });
  EXPECT_EQ(received(*server, 5), bytes_of("hello"));
  writer.join();
}

TEST(tls, bytes_on_the_socket_are_encrypted) {
  auto [client, server] = established();
  ASSERT_EQ(write_all(*client, bytes_of("plain words")), io_status::done);
  pollfd waiting{server->fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
  char seen[1000]{};
  const ssize_t there = ::recv(server->fd(), seen, sizeof seen, MSG_PEEK);
  ASSERT_GT(there, 11);
  EXPECT_EQ(std::string_view(seen, static_cast<std::size_t>(there)).find("plain words"),
            std::string_view::npos);
}

TEST(tls, gathers_and_scatters) {
  auto [client, server] = established();
  // Parts smaller and larger than a record, and empty parts.
  const std::size_t sizes[] = {0, 64, 1, 40'000, 0, 16'384, 16'383, 3, 100'000, 0};
  bytes whole;
  std::vector<bytes> parts;
  std::vector<iovec> out;
  for (const std::size_t size : sizes) {
    parts.push_back(content(size, size));
    whole.insert(whole.end(), parts.back().begin(), parts.back().end());
  }
  for (const bytes& part : parts)
    out.push_back(part_of(part));
  const io_result put = client->write(out);
  ASSERT_EQ(put.status, io_status::done);
  ASSERT_EQ(put.bytes, whole.size());

  bytes got(whole.size());
  for (std::size_t at = 0; at < got.size();) {
    const std::size_t left = got.size() - at;
    const std::size_t first = std::min<std::size_t>(left, 7);
    const iovec in[] = {
        {got.data() + at, first}, {nullptr, 0}, {got.data() + at + first, left - first}};
    const io_result result = server->read(in);
    if (result.status == io_status::would_block) {
      EXPECT_FALSE(server->has_buffered());
      wait_to_read(*server);
      continue;
    }
    ASSERT_EQ(result.status, io_status::done) << server->failure();
    at += result.bytes;
  }
  EXPECT_TRUE(got == whole);
}

TEST(tls, parts_without_bytes_are_no_end) {
  auto [client, server] = established();
  const iovec nothing{nullptr, 0};
  for (const std::span<const iovec> parts : {std::span<const iovec>(), {&nothing, 1}}) {
    EXPECT_EQ(client->read(parts).status, io_status::done);
    EXPECT_EQ(client->write(parts).status, io_status::done);
  }
}

TEST(tls, reports_buffered_bytes) {
  auto [client, server] = established();
  EXPECT_FALSE(server->has_buffered());
  ASSERT_EQ(write_all(*client, bytes_of("abc")), io_status::done);
  EXPECT_EQ(received(*server, 1), bytes_of("a"));
  EXPECT_TRUE(server->has_buffered());
  EXPECT_EQ(received(*server, 2), bytes_of("bc"));
  bytes none(1);
  EXPECT_EQ(read_into(*server, none).status, io_status::would_block);
  EXPECT_FALSE(server->has_buffered());
}

TEST(tls, a_write_that_blocked_goes_on_from_another_address) {
  auto [client, server] = established();
  const bytes data = content(std::size_t{32} << 20, 1);
  std::size_t sent = 0;
  io_result put;
  while ((put = write_from(*client, data, sent)).status == io_status::done && sent < data.size())
    sent += put.bytes;
  ASSERT_EQ(put.status, io_status::would_block);
  EXPECT_FALSE(client->write_wants_read());
  bytes got(data.size());
  std::thread reader([&, &from = *server] { EXPECT_EQ(read_all(from, got), io_status::done); });
  // Each time from a new copy, and sometimes with fewer bytes than before.
  for (std::size_t turn = 0; sent < data.size(); ++turn) {
    const std::size_t size =
        std::min<std::size_t>(data.size() - sent, turn % 3 == 0 ? 10 : 500'000);
    const bytes copy(data.begin() + static_cast<std::ptrdiff_t>(sent),
                     data.begin() + static_cast<std::ptrdiff_t>(sent + size));
    put = write_from(*client, copy);
    if (put.status == io_status::would_block) {
      wait_to_write(*client);
      continue;
    }
    ASSERT_EQ(put.status, io_status::done) << client->failure();
    ASSERT_LE(put.bytes, size);
    sent += put.bytes;
  }
  reader.join();
  EXPECT_TRUE(got == data);
}

TEST(tls, large_transfers_both_ways_at_once) {
  auto [client, server] = connected(key(), key());
  shake_hands({std::move(client), std::move(server)});
  ends both = established();
  const std::size_t size = test::under_sanitizer ? 4 << 20 : 32 << 20;
  const bytes there = content(size, 1);
  const bytes back = content(size, 2);
  std::thread sends_there(
      [&, &to = *both.client] { EXPECT_EQ(write_all(to, there), io_status::done); });
  std::thread sends_back(
      [&, &to = *both.server] { EXPECT_EQ(write_all(to, back), io_status::done); });
  bytes got_back(size);
  std::thread receives(
      [&, &from = *both.client] { EXPECT_EQ(read_all(from, got_back), io_status::done); });
  const bytes got_there = received(*both.server, size);
  sends_there.join();
  sends_back.join();
  receives.join();
  EXPECT_TRUE(got_there == there);
  EXPECT_TRUE(got_back == back);
}

// ---- the end ------------------------------------------------------------------------------------

TEST(tls, an_orderly_close_leaves_the_other_direction_open) {
  auto [client, server] = established();
  ASSERT_EQ(write_all(*client, bytes_of("last bytes")), io_status::done);
  client->finish();
  EXPECT_EQ(write_from(*client, bytes_of("x")).status, io_status::failed);
  EXPECT_EQ(received(*server, 10), bytes_of("last bytes"));
  EXPECT_EQ(end_of(*server), io_status::closed);
  EXPECT_EQ(end_of(*server), io_status::closed);
  ASSERT_EQ(write_all(*server, bytes_of("still here")), io_status::done);
  EXPECT_EQ(received(*client, 10), bytes_of("still here"));
  server->finish();
  EXPECT_EQ(end_of(*client), io_status::closed);
}

TEST(tls, an_end_behind_much_data_arrives_after_it) {
  auto [client, server] = established();
  const bytes data = content(std::size_t{32} << 20, 1);
  std::size_t sent = 0;
  io_result put;
  while ((put = write_from(*client, data, sent)).status == io_status::done)
    sent += put.bytes;
  ASSERT_EQ(put.status, io_status::would_block);
  client->finish();
  EXPECT_TRUE(client->read_wants_write()) << "what is left of the last records";
  std::thread flusher([&from = *client] { EXPECT_EQ(end_of(from), io_status::closed); });
  bytes got;
  io_result result;
  bytes part(100'000);
  while ((result = read_into(*server, part)).status != io_status::closed) {
    ASSERT_NE(result.status, io_status::failed) << server->failure();
    if (result.status == io_status::would_block) wait_to_read(*server);
    got.insert(got.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(result.bytes));
  }
  server->finish();
  flusher.join();
  // The records under way at the call of finish() arrive as a whole.
  ASSERT_GE(got.size(), sent);
  EXPECT_EQ(std::memcmp(got.data(), data.data(), got.size()), 0);
}

TEST(tls, an_end_without_notice_is_a_failure) {
  auto [client, server] = established();
  ASSERT_EQ(write_all(*client, bytes_of("half a me")), io_status::done);
  ASSERT_EQ(::shutdown(client->fd(), SHUT_WR), 0);
  EXPECT_EQ(received(*server, 9), bytes_of("half a me"));
  EXPECT_EQ(end_of(*server), io_status::failed);
  EXPECT_THAT(server->failure(), HasSubstr("truncated: the connection ended"));
}

TEST(tls, bytes_that_somebody_changed_are_a_failure) {
  auto [client, server] = established();
  // A record of application data that is not encrypted with the key.
  const unsigned char forged[] = {23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8,
                                  9,  0, 1, 2, 3,  4, 5, 6, 7, 8, 9, 0};
  ASSERT_EQ(::send(client->fd(), forged, sizeof forged, 0), static_cast<ssize_t>(sizeof forged));
  EXPECT_EQ(end_of(*server), io_status::failed);
  EXPECT_THAT(server->failure(), AllOf(HasSubstr("TLS"), Not(HasSubstr("handshake"))));
  EXPECT_EQ(write_from(*server, bytes_of("x")).status, io_status::failed);
}

TEST(tls, writing_to_a_closed_peer_raises_no_signal) {
  auto [client, server] = established();
  server.reset();
  EXPECT_TRUE(test::eventually(
      [&] { return write_from(*client, bytes_of("x")).status == io_status::failed; }));
  EXPECT_EQ(end_of(*client), io_status::failed);
}

// ---- others are refused -------------------------------------------------------------------------

TEST(tls, another_key_is_refused_on_both_sides) {
  const ends both = refused(key("another key, just as long as it!"), key());
  EXPECT_THAT(both.server->failure(), AllOf(HasSubstr("another key"), HasSubstr("key file")));
  EXPECT_THAT(both.client->failure(), AllOf(HasSubstr("another key"), HasSubstr("key file")));
  EXPECT_FALSE(both.client->is_established());
}

TEST(tls, a_key_of_another_name_is_refused) {
  const ends both = refused(key(key_text, "one"), key(key_text, "another"));
  EXPECT_THAT(both.server->failure(), HasSubstr("another key"));
  EXPECT_THAT(both.client->failure(), HasSubstr("another key"));
}

TEST(tls, ends_with_different_purposes_fail) {
  const std::string_view contexts[] = {"", "node 1", "node 2", "node 12"};
  for (const std::string_view of_client : contexts) {
    for (const std::string_view of_server : contexts) {
      auto [near, far] = tcp_pair();
      const ends both{tls_client(std::move(near), key(), {}, std::string(of_client)),
                      tls_server(std::move(far), key(), std::string(of_server))};
      shake_hands(both);
      EXPECT_EQ(both.client->is_established(), of_client == of_server)
          << of_client << ", " << of_server << ": " << both.client->failure();
      EXPECT_EQ(both.server->is_established(), of_client == of_server);
    }
  }
}

TEST(tls, a_side_that_talks_plainly_is_named) {
  const auto talks_no_tls = AllOf(HasSubstr("does not speak TLS"), HasSubstr("--plain"));
  for (const std::string_view words :
       {std::string_view("GET / HTTP/1.1\r\n\r\n"), std::string_view("farcall hello, and more"),
        std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0", 12)}) {
    for (const bool is_server : {true, false}) {
      auto [a, b] = tcp_pair();
      const auto ours =
          is_server ? tls_server(std::move(a), key()) : tls_client(std::move(a), key());
      const auto theirs = plain_stream(std::move(b));
      ASSERT_EQ(write_all(*theirs, bytes_of(words)), io_status::done);
      EXPECT_EQ(end_of(*ours), io_status::failed);
      EXPECT_THAT(ours->failure(), talks_no_tls) << words;
    }
  }
}

TEST(tls, garbage_is_refused) {
  for (std::uint64_t n = 0; n < 50; ++n) {
    for (const bool is_server : {true, false}) {
      auto [a, b] = tcp_pair();
      const auto ours =
          is_server ? tls_server(std::move(a), key()) : tls_client(std::move(a), key());
      const auto theirs = plain_stream(std::move(b));
      bytes garbage = content(2000, n);
      // Half of the cases look like a handshake record.
      if (n % 2 == 0) std::memcpy(garbage.data(), "\x16\x03\x01\x01\x00\x01", 6);
      ASSERT_EQ(write_all(*theirs, garbage), io_status::done);
      theirs->finish();
      EXPECT_EQ(end_of(*ours), io_status::failed) << n;
      EXPECT_FALSE(ours->is_established());
      EXPECT_THAT(ours->failure(), HasSubstr("handshake"));
    }
  }
}

TEST(tls, a_handshake_that_stops_half_way_is_a_failure) {
  // A client's first bytes, cut at several places.
  bytes hello;
  {
    auto [a, b] = tcp_pair();
    const auto client = tls_client(std::move(a), key());
    const auto listener = plain_stream(std::move(b));
    bytes none(1);
    EXPECT_EQ(read_into(*client, none).status, io_status::would_block);
    wait_to_read(*listener);
    hello.resize(10'000);
    const io_result got = read_into(*listener, hello);
    ASSERT_EQ(got.status, io_status::done);
    hello.resize(got.bytes);
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{100},
                                 hello.size() - 1, hello.size()}) {
    auto [a, b] = tcp_pair();
    const auto server = tls_server(std::move(a), key());
    const auto theirs = plain_stream(std::move(b));
    ASSERT_EQ(
        write_all(*theirs, bytes(hello.begin(), hello.begin() + static_cast<std::ptrdiff_t>(size))),
        io_status::done);
    bytes none(1);
    EXPECT_TRUE(test::eventually(
        [&] { return read_into(*server, none).status == io_status::would_block; }));
    EXPECT_FALSE(server->is_established());
    theirs->finish();
    EXPECT_EQ(end_of(*server), io_status::failed) << size;
    EXPECT_THAT(server->failure(), AllOf(HasSubstr("ended the connection"), HasSubstr("--plain")));
  }
}

TEST(tls, a_replayed_hello_is_useless) {
  auto [a, b] = tcp_pair();
  auto [c, d] = tcp_pair();
  const auto client = tls_client(std::move(a), key());
  const auto tap = plain_stream(std::move(b));
  const auto server = tls_server(std::move(c), key());
  const auto replay = plain_stream(std::move(d));
  bytes none(1);
  EXPECT_EQ(read_into(*client, none).status, io_status::would_block);
  bytes hello(10'000);
  wait_to_read(*tap);
  hello.resize(read_into(*tap, hello).bytes);
  ASSERT_EQ(write_all(*replay, hello), io_status::done);
  // The binder is right, so the server replies; the attacker lacks the client's ephemeral key.
  EXPECT_EQ(read_into(*server, none).status, io_status::would_block);
  ASSERT_EQ(write_all(*replay, hello), io_status::done);
  EXPECT_EQ(end_of(*server), io_status::failed);
  EXPECT_FALSE(server->is_established());
}

TEST(tls, reports_a_missing_listener) {
  auto listeners = listen_on({"127.0.0.1", 0});
  const socket_address at = resolve(local_address(listeners[0].get()))[0];
  listeners.clear();
  try {
    const auto client = tls_client(start_connect(at), key());
    EXPECT_EQ(end_of(*client), io_status::failed);
    EXPECT_THAT(client->failure(), HasSubstr("farcall serve"));
  } catch (const error& e) {
    EXPECT_THAT(e.what(), HasSubstr("farcall serve"));
  }
}

TEST(tls, an_identity_is_checked_when_it_is_made) {
  EXPECT_THAT([] { (void)tls_identity::with_key("name", secret::random(31)); },
              ThrowsMessage<setting_error>(AllOf(HasSubstr("name"), HasSubstr("32"))));
  for (const std::string& name : {std::string(), std::string(129, 'a'), std::string("a\0b", 3)})
    EXPECT_THROW((void)key(key_text, name), setting_error);
  auto [a, b] = tcp_pair();
  EXPECT_THROW((void)tls_client(std::move(a), nullptr), error);
}

/// Returns a client's first bytes: its hello, which is one record.
bytes hello_of_a_client() {
  auto [client, server] = tcp_pair();
  const auto speaking = tls_client(std::move(client), key());
  EXPECT_EQ(write_from(*speaking, bytes_of("x")).status, io_status::would_block);
  bytes hello(4096);
  pollfd come{server.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&come, 1, 10'000), 1);
  const ssize_t got = ::recv(server.get(), hello.data(), hello.size(), 0);
  hello.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  EXPECT_GT(hello.size(), 100U);
  return hello;
}

TEST(tls, a_server_wakes_after_the_complete_client_hello) {
  const bytes hello = hello_of_a_client();
  auto [client, accepted] = tcp_pair();
  const auto server = tls_server(std::move(accepted), key());
  bytes got(10);
  EXPECT_EQ(read_into(*server, got).status, io_status::would_block);
  pollfd come{server->fd(), POLLIN, 0};
  std::size_t sent = 0;
  // A part of the header, its rest, and a part of the record.
  for (const std::size_t part : {1, 4, 50}) {
    ASSERT_EQ(::send(client.get(), hello.data() + sent, part, MSG_NOSIGNAL),
              static_cast<ssize_t>(part));
    sent += part;
    EXPECT_EQ(read_into(*server, got).status, io_status::would_block);
    EXPECT_EQ(::poll(&come, 1, 20), 0) << "it would be called again and again, for nothing";
  }
  ASSERT_EQ(::send(client.get(), hello.data() + sent, hello.size() - sent, MSG_NOSIGNAL),
            static_cast<ssize_t>(hello.size() - sent));
  EXPECT_EQ(::poll(&come, 1, 10'000), 1);
  EXPECT_EQ(read_into(*server, got).status, io_status::would_block);
  // The server has replied.
  pollfd reply{client.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&reply, 1, 10'000), 1);
}

TEST(tls, a_fragmented_hello_over_a_unix_socket_is_assembled) {
  const bytes hello = hello_of_a_client();
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const unique_fd client(ends[0]);
  const auto server = tls_server(unique_fd(ends[1]), key());
  bytes got(10);
  for (const std::byte& piece : hello) {
    EXPECT_EQ(read_into(*server, got).status, io_status::would_block) << server->failure();
    ASSERT_EQ(::send(client.get(), &piece, 1, MSG_NOSIGNAL), 1);
  }
  EXPECT_EQ(read_into(*server, got).status, io_status::would_block) << server->failure();
  pollfd reply{client.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&reply, 1, 10'000), 1);
}

/// Measured by mallinfo2(); sanitizers have their own heap, which it does not see.
TEST(tls, a_client_without_hello_costs_less_than_8_KiB) {
  constexpr std::size_t clients = 64;
  const identity ours = key();
  std::vector<std::pair<unique_fd, unique_fd>> sockets;
  for (std::size_t i = 0; i < clients; ++i)
    sockets.push_back(tcp_pair());
  std::vector<std::unique_ptr<stream>> streams;
  streams.reserve(clients);
  bytes got(10);
  const std::size_t before = ::mallinfo2().uordblks;
  for (auto& [client, accepted] : sockets) {
    ASSERT_EQ(::send(client.get(), "\x16\x03\x01\x02", 4, MSG_NOSIGNAL), 4);
    streams.push_back(tls_server(std::move(accepted), ours));
    EXPECT_EQ(read_into(*streams.back(), got).status, io_status::would_block);
  }
  if constexpr (!test::under_sanitizer) {
    EXPECT_LT(::mallinfo2().uordblks - before, clients * 8192);
  }
}

TEST(tls, a_client_that_ends_within_its_hello_is_noticed) {
  const bytes hello = hello_of_a_client();
  auto [client, accepted] = tcp_pair();
  const auto server = tls_server(std::move(accepted), key());
  ASSERT_EQ(::send(client.get(), hello.data(), 60, MSG_NOSIGNAL), 60);
  bytes got(10);
  EXPECT_EQ(read_into(*server, got).status, io_status::would_block);
  client.reset();
  pollfd come{server->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&come, 1, 10'000), 1);
  EXPECT_EQ(read_into(*server, got).status, io_status::failed);
  EXPECT_FALSE(server->failure().empty());
}

TEST(tls, bytes_that_are_no_hello_are_refused_at_once) {
  for (const std::string_view junk :
       {"GET / HTTP/1.1", "\x16\x03\x01\xff\xff\x01", "\xff\xff\xff\xff\xff"}) {
    auto [client, accepted] = tcp_pair();
    const auto server = tls_server(std::move(accepted), key());
    ASSERT_EQ(::send(client.get(), junk.data(), junk.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(junk.size()));
    pollfd come{server->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&come, 1, 10'000), 1);
    bytes got(10);
    EXPECT_EQ(read_into(*server, got).status, io_status::failed) << junk;
  }
}

} // namespace
} // namespace farcall::tcp::tls_test
