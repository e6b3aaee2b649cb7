// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tcp::socket_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const address any_port{"127.0.0.1", 0};

time_point soon() { return clock::now() + test::wait_limit; }

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

unique_fd accepted(int listener) {
  std::optional<unique_fd> got;
  EXPECT_TRUE(test::eventually([&] { return (got = accept_from(listener)).has_value(); }));
  return got ? std::move(*got) : unique_fd();
}

bool is_as_we_want_it(int fd) {
  return (::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

TEST(listen_on, gives_a_port_to_connect_to) {
  const auto listeners = listen_on(any_port);
  ASSERT_EQ(listeners.size(), 1U);
  EXPECT_TRUE(is_as_we_want_it(listeners[0].get()));
  const address at = local_address(listeners[0].get());
  EXPECT_EQ(at.host, "127.0.0.1");
  EXPECT_NE(at.port, 0);

  const unique_fd client = connect_to(at, soon());
  const unique_fd server = accepted(listeners[0].get());
  for (const int fd : {client.get(), server.get()}) {
    EXPECT_TRUE(is_as_we_want_it(fd));
    EXPECT_NE(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
  }
  EXPECT_EQ(peer_text(client.get()), at.text());
  EXPECT_EQ(peer_text(server.get()), local_address(client.get()).text());
  EXPECT_EQ(::send(client.get(), "x", 1, 0), 1);
  char got = 0;
  EXPECT_TRUE(test::eventually([&] { return ::recv(server.get(), &got, 1, 0) == 1; }));
  EXPECT_EQ(got, 'x');
  delay_acknowledgements(server.get());
  EXPECT_EQ(option(server.get(), IPPROTO_TCP, TCP_QUICKACK), 0);
}

/// Returns the number of bytes before the connection's end.
std::size_t count_until_end(int fd) {
  std::vector<char> piece(65536);
  std::size_t all = 0;
  for (pollfd waiting{fd, POLLIN, 0}; ::poll(&waiting, 1, 60'000) == 1;) {
    const ssize_t got = ::recv(fd, piece.data(), piece.size(), 0);
    if (got <= 0) break;
    all += static_cast<std::size_t>(got);
  }
  return all;
}

TEST(abort_connection, discards_undelivered_bytes) {
  const auto listeners = listen_on(any_port);
  const unique_fd client = connect_to(local_address(listeners[0].get()), soon());
  const unique_fd server = accepted(listeners[0].get());
  // Until the buffers of both ends are full.
  const std::vector<char> piece(65536);
  std::size_t sent = 0;
  for (int blocked = 0; blocked < 20;) {
    const ssize_t put = ::send(client.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (put > 0) {
      sent += static_cast<std::size_t>(put);
    } else {
      ++blocked;
      ::usleep(10'000);
    }
  }
  const unique_fd elsewhere(::dup(client.get()));
  abort_connection(client.get());
  EXPECT_LT(count_until_end(server.get()), sent);
  char got = 0;
  EXPECT_LE(::recv(client.get(), &got, 1, 0), 0);
}

TEST(abort_connection, also_ends_unix_connections) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const unique_fd one(ends[0]);
  const unique_fd other(ends[1]);
  abort_connection(one.get());
  char got = 0;
  EXPECT_EQ(::recv(other.get(), &got, 1, 0), 0);
}

TEST(listen_on, takes_one_port_for_all_addresses_of_a_name) {
  const auto listeners = listen_on({"localhost", 0});
  ASSERT_FALSE(listeners.empty());
  for (const unique_fd& listener : listeners)
    EXPECT_EQ(local_address(listener.get()).port, local_address(listeners[0].get()).port);
  const address by_name{"localhost", local_address(listeners[0].get()).port};
  EXPECT_NO_THROW((void)connect_to(by_name, soon()));
}

bool has_ipv6() {
  try {
    (void)listen_on({"::1", 0});
    return true;
  } catch (const error&) {
    return false;
  }
}

TEST(listen_on, one_address_means_all_of_both_families) {
  const auto all = listen_on({"::", 0});
  const std::uint16_t port = local_address(all[0].get()).port;
  EXPECT_NO_THROW((void)connect_to({"127.0.0.1", port}, soon()));
  if (has_ipv6()) {
    EXPECT_NO_THROW((void)connect_to({"::1", port}, soon()));
  }
}

TEST(listen_on, peers_by_ipv4_have_addresses_of_ipv4_there) {
  const auto all = listen_on({"::", 0});
  const unique_fd client = connect_to({"127.0.0.1", local_address(all[0].get()).port}, soon());
  std::optional<unique_fd> server;
  EXPECT_TRUE(test::eventually([&] {
    for (const unique_fd& listener : all) {
      if (!server) server = accept_from(listener.get());
    }
    return server.has_value();
  }));
  EXPECT_EQ(peer_text(server->get()), local_address(client.get()).text());
}

TEST(listen_on_all, an_address_named_twice_counts_once) {
  const std::uint16_t port = local_address(listen_on({"0.0.0.0", 0})[0].get()).port;
  EXPECT_EQ(listen_on_all({{"0.0.0.0", port}, {"0.0.0.0", port}, {"127.0.0.1", port}}).size(), 1U);
  EXPECT_EQ(listen_on_all({any_port, any_port}).size(), 2U) << "any port is another one each time";
  EXPECT_EQ(listen_on_all({{"0.0.0.0", port}, {"::", port}}).size(), has_ipv6() ? 2U : 1U);
}

TEST(listen_on, a_port_in_use_is_named_with_the_remedy) {
  const auto listeners = listen_on(any_port);
  const address at = local_address(listeners[0].get());
  EXPECT_THAT([&] { (void)listen_on(at); },
              ThrowsMessage<error>(AllOf(HasSubstr(at.text()), HasSubstr("another program"),
                                         HasSubstr("another port"))));
}

TEST(listen_on, a_port_is_free_again_at_once) {
  auto listeners = listen_on(any_port);
  const address at = local_address(listeners[0].get());
  unique_fd client = connect_to(at, soon());
  // The side that closes first keeps the port in use for a minute.
  accepted(listeners[0].get()).reset();
  client.reset();
  listeners.clear();
  EXPECT_NO_THROW((void)listen_on(at));
}

TEST(listen_on, addresses_of_others_are_refused) {
  EXPECT_THAT([] { (void)listen_on({"192.0.2.1", 0}); },
              ThrowsMessage<error>(AllOf(HasSubstr("192.0.2.1"), HasSubstr("this machine"))));
}

TEST(accept_from, does_not_wait) {
  const auto listeners = listen_on(any_port);
  EXPECT_FALSE(accept_from(listeners[0].get()));
}

TEST(accept_from, throws_for_other_descriptors) {
  EXPECT_THROW((void)accept_from(-1), error);
  const auto listeners = listen_on(any_port);
  const unique_fd client = connect_to(local_address(listeners[0].get()), soon());
  EXPECT_THROW((void)accept_from(client.get()), error);
}

TEST(connect_to, reports_a_missing_listener) {
  auto listeners = listen_on(any_port);
  const address at = local_address(listeners[0].get());
  listeners.clear();
  EXPECT_THAT([&] { (void)connect_to(at, soon()); },
              ThrowsMessage<error>(AllOf(HasSubstr(at.text()), HasSubstr("farcall serve"))));
}

TEST(connect_to, ends_at_its_deadline) {
  // A listener with a full backlog does not reply.
  const unique_fd full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(full.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
  ASSERT_EQ(::listen(full.get(), 0), 0);
  const address at = local_address(full.get());
  std::vector<unique_fd> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.push_back(start_connect(resolve(at)[0]));
  const time_point deadline = clock::now() + 30ms;
  EXPECT_THAT([&] { (void)connect_to(at, deadline); },
              ThrowsMessage<timeout>(AllOf(HasSubstr(at.text()), HasSubstr("in time"))));
  EXPECT_GE(clock::now(), deadline);
}

TEST(start_connect, becomes_writable_when_the_outcome_is_known) {
  const auto listeners = listen_on(any_port);
  const unique_fd client = start_connect(resolve(local_address(listeners[0].get()))[0]);
  EXPECT_TRUE(is_as_we_want_it(client.get()));
  EXPECT_NE(option(client.get(), IPPROTO_TCP, TCP_NODELAY), 0);
  pollfd waiting{client.get(), POLLOUT, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
  EXPECT_EQ(option(client.get(), SOL_SOCKET, SO_ERROR), 0);
}

TEST(set_options, probe_idle_peers_and_let_the_path_monitor_decide) {
  const auto listeners = listen_on(any_port);
  const unique_fd client = connect_to(local_address(listeners[0].get()), soon());
  for (const std::chrono::milliseconds heartbeat_timeout :
       {1ms, 2000ms, 3999ms, 5000ms, 20'000ms, 600'000ms, 100'000'000ms}) {
    set_options(client.get(), heartbeat_timeout);
    const auto seconds = std::clamp<std::int64_t>(heartbeat_timeout / 1s, 2, 32'767);
    const int idle = option(client.get(), IPPROTO_TCP, TCP_KEEPIDLE);
    const int interval = option(client.get(), IPPROTO_TCP, TCP_KEEPINTVL);
    const int probes = option(client.get(), IPPROTO_TCP, TCP_KEEPCNT);
    EXPECT_LE(idle, std::max<std::int64_t>(1, seconds / 2)) << heartbeat_timeout.count();
    EXPECT_LE(interval, std::max<std::int64_t>(1, seconds / 4)) << heartbeat_timeout.count();
    EXPECT_GT(interval * probes, 5 * seconds / 2)
        << heartbeat_timeout.count() << " ms: keepalive decides before the path monitor";
    EXPECT_EQ(option(client.get(), IPPROTO_TCP, TCP_USER_TIMEOUT), 0)
        << "it would end connections to nodes that are only busy";
    EXPECT_NE(option(client.get(), SOL_SOCKET, SO_KEEPALIVE), 0);
  }
}

TEST(set_options, heartbeat_timeout_0_leaves_the_watch_off) {
  const auto listeners = listen_on(any_port);
  const unique_fd client = connect_to(local_address(listeners[0].get()), soon());
  set_options(client.get(), 0ms);
  EXPECT_EQ(option(client.get(), SOL_SOCKET, SO_KEEPALIVE), 0);
}

TEST(set_options, are_for_tcp) { EXPECT_THROW(set_options(-1, 10s), error); }

TEST(peer_text, does_without_a_peer) {
  const auto listeners = listen_on(any_port);
  EXPECT_EQ(peer_text(listeners[0].get()), "an unknown address");
  EXPECT_THROW((void)local_address(-1), error);
}

} // namespace
} // namespace farcall::tcp::socket_test
