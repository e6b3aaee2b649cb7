// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/rank_port.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/tls.hpp>
#include <tests/support.hpp>

#include <algorithm>
#include <atomic>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>

namespace farcall::tcp::rank_port_test {
namespace {

using test::eventually;

time_point soon() { return clock::now() + std::chrono::seconds(20); }

struct host_side {
  explicit host_side(bool is_encrypted) {
    job.credentials = job_credentials::make(is_encrypted);
    job.heartbeat_timeout = std::chrono::seconds(5);
    listener = std::make_shared<own_listener>(*loop, job.credentials.name, job.heartbeat_timeout);
    at = open_rank_port(loop, listener, {job.credentials.copy(), job.heartbeat_timeout});
  }

  std::optional<arrival> next() {
    std::optional<arrival> come;
    (void)eventually([&] { return (come = at->accept()).has_value(); });
    return come;
  }

  target_request job;
  std::shared_ptr<event_loop> loop = std::make_shared<event_loop>("farcall-test");
  std::shared_ptr<own_listener> listener;
  std::unique_ptr<port> at;
};

class rank_port_test : public testing::TestWithParam<bool> {};

TEST_P(rank_port_test, takes_in_processes_with_their_ranks) {
  host_side host(GetParam());
  port_connection there = connect_rank_port(host.at->name(), 3, soon());
  auto come = host.next();
  ASSERT_TRUE(come);
  EXPECT_EQ(come->rank, 3U);
  EXPECT_FALSE(come->is_near);
  EXPECT_THAT(come->process, testing::StartsWith("a process at "));
  control_socket here(std::move(come->socket));
  control_socket far(std::move(there.socket));
  EXPECT_TRUE(here.send(control::start));
  const auto got = far.receive(soon());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, control::start);
  EXPECT_TRUE(far.send(control::quiet));
  const auto back = here.receive(soon());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, control::quiet);
  // The end of one socket is the end of the other.
  far.close();
  EXPECT_FALSE(here.receive(soon()).has_value());
}

TEST_P(rank_port_test, refuses_processes_without_the_jobs_key) {
  host_side host(GetParam());
  const auto job = host.job.credentials.copy();
  host_side other(GetParam());
  // Make the name of a port with another job's key under this job's name.
  target_request wrong{job_credentials::make(GetParam()), host.job.heartbeat_timeout};
  wrong.credentials.name = job.name;
  const auto impostor =
      std::make_shared<own_listener>(*host.loop, job.name, std::chrono::seconds(5));
  const auto unreachable = open_rank_port(host.loop, impostor, std::move(wrong));
  std::vector<std::byte> name = unreachable->name();
  const std::vector<std::byte> right = host.at->name();
  // Replace its addresses, which come last, by the addresses of this job's port. The wrong key
  // before them stays.
  ASSERT_EQ(name.size(), right.size());
  const std::size_t addresses =
      name.size() - sizeof(std::uint32_t) - (request_body_bytes - sizeof(node_id));
  std::copy(right.end() - static_cast<std::ptrdiff_t>(addresses), right.end(),
            name.end() - static_cast<std::ptrdiff_t>(addresses));
  try {
    (void)connect_rank_port(name, 1, soon());
  } catch (const error&) {
    // An encrypted connection may fail at once.
  }
  EXPECT_FALSE(host.at->accept().has_value());
  const port_connection there = connect_rank_port(host.at->name(), 2, soon());
  const auto come = host.next();
  ASSERT_TRUE(come);
  EXPECT_EQ(come->rank, 2U);
}

TEST_P(rank_port_test, is_not_reached_by_other_names) {
  host_side host(GetParam());
  std::vector<std::byte> name = host.at->name();
  for (std::size_t length = 0; length < name.size(); ++length)
    EXPECT_THROW((void)connect_rank_port(std::span(name).first(length), 1, soon()),
                 malformed_message);
  name.push_back(std::byte{0});
  EXPECT_THROW((void)connect_rank_port(name, 1, soon()), malformed_message);
}

std::vector<bool> kinds() {
  return tls_is_built_in() ? std::vector<bool>{false, true} : std::vector<bool>{false};
}
INSTANTIATE_TEST_SUITE_P(plain_or_encrypted, rank_port_test, testing::ValuesIn(kinds()));

TEST(own_listener, passes_on_connections_of_its_job) {
  event_loop loop("farcall-test");
  const job_credentials job = job_credentials::make(false);
  own_listener listener(loop, job.name, std::chrono::seconds(5));
  std::atomic<int> nodes{0};
  std::atomic<int> processes{0};
  listener.on_connection([&](unique_fd) { ++nodes; });
  listener.on_join([&](unique_fd) { ++processes; });
  const auto dial = [&](connection_kind kind, const job_name& name) {
    unique_fd socket = connect_to(listener.addresses().front().numeric(), soon());
    preamble first;
    first.kind = kind;
    first.job = name;
    EXPECT_EQ(::send(socket.get(), &first, sizeof first, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof first));
    return socket;
  };
  const unique_fd stranger = dial(connection_kind::lane, job_credentials::make(false).name);
  const unique_fd node = dial(connection_kind::lane, job.name);
  const unique_fd process = dial(connection_kind::join, job.name);
  EXPECT_TRUE(eventually([&] { return nodes == 1 && processes == 1; }));
  listener.on_connection({});
  const unique_fd late = dial(connection_kind::lane, job.name);
  char nothing = 0;
  ::fcntl(late.get(), F_SETFL, 0);
  EXPECT_LE(::recv(late.get(), &nothing, 1, 0), 0); // it is closed
  EXPECT_EQ(nodes, 1);
}

TEST(interfaces, have_addresses_of_this_machine) {
  const std::vector<socket_address> own = interface_addresses(7);
  ASSERT_FALSE(own.empty());
  const bool all_loopback =
      std::all_of(own.begin(), own.end(), [](const socket_address& a) { return a.is_loopback(); });
  for (const socket_address& a : own) {
    EXPECT_EQ(a.port(), 7);
    EXPECT_EQ(a.is_loopback(), all_loopback);
  }
}

TEST(interfaces, are_nearer_than_other_networks) {
  // Addresses of the reserved class, which no interface has.
  std::vector<socket_address> all;
  for (const char* text : {"240.0.0.1:1", "127.0.0.9:1", "240.1.0.1:1"}) {
    for (const socket_address& a : resolve(parse_address(text, "an address")))
      all.push_back(a);
  }
  put_nearest_first(all);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_TRUE(all.front().is_loopback());
}

} // namespace
} // namespace farcall::tcp::rank_port_test
