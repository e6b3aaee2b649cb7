// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/local_port.hpp>
#include <tests/support.hpp>

#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace farcall::test::local_port_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

time_point soon() { return clock::now() + std::chrono::seconds(20); }

std::optional<arrival> next_of(port& at) {
  std::optional<arrival> come;
  (void)eventually([&] { return (come = at.accept()).has_value(); });
  return come;
}

/// Connects a process that knows the socket's name, but sends other bytes than a process of the
/// group.
unique_fd connect_as_stranger(std::span<const std::byte> name, const std::string& words) {
  byte_reader r(name, "the name");
  (void)r.text();
  const auto secret = r.number<std::array<char, 32>>();
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::string path = "farcall-" + std::string(secret.data(), secret.size());
  std::memcpy(at.sun_path + 1, path.data(), path.size());
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
  if (!words.empty()) {
    EXPECT_GT(::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL), 0);
  }
  return socket;
}

bool is_cut(const unique_fd& socket) {
  pollfd watched{socket.get(), POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0 && (watched.revents & (POLLHUP | POLLERR)) != 0;
}

TEST(local_port, takes_in_processes_with_their_ranks) {
  const auto at = open_local_port();
  EXPECT_FALSE(at->accept().has_value());
  const port_connection second = connect_local_port(at->name(), 2, soon());
  const port_connection first = connect_local_port(at->name(), 1, soon());
  pollfd readable{at->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 20'000), 1);
  auto a = next_of(*at);
  auto b = next_of(*at);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->rank + b->rank, 3U);
  EXPECT_TRUE(a->is_near);
  EXPECT_EQ(a->process, "process " + std::to_string(::getpid()));
  control_socket here(std::move(a->socket));
  EXPECT_TRUE(here.send(control::start));
  control_socket there(unique_fd(::dup((a->rank == 1 ? first : second).socket.get())));
  const auto got = there.receive(soon());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->kind, control::start);
}

TEST(local_port, refuses_processes_without_the_name) {
  const auto at = open_local_port();
  const std::vector<std::byte> name = at->name();
  const unique_fd silent = connect_as_stranger(name, "");
  const unique_fd short_words = connect_as_stranger(name, "hello");
  const unique_fd wrong_words = connect_as_stranger(name, std::string(36, 'x'));
  EXPECT_TRUE(eventually([&] {
    EXPECT_FALSE(at->accept().has_value());
    return is_cut(short_words) && is_cut(wrong_words);
  }));
  EXPECT_FALSE(is_cut(silent));
  // Refused processes must not keep others out.
  const port_connection right = connect_local_port(name, 5, soon());
  const auto come = next_of(*at);
  ASSERT_TRUE(come);
  EXPECT_EQ(come->rank, 5U);
}

TEST(local_port, limits_silent_connections) {
  const auto at = open_local_port();
  const std::vector<std::byte> name = at->name();
  std::vector<unique_fd> silent;
  for (int i = 0; i < 130; ++i) {
    silent.push_back(connect_as_stranger(name, ""));
    (void)at->accept();
  }
  EXPECT_TRUE(is_cut(silent.front()));
  EXPECT_FALSE(is_cut(silent.back()));
}

TEST(local_port, is_not_reached_by_other_names) {
  const auto connect = [](std::vector<std::byte> name) {
    return [name = std::move(name)] { (void)connect_local_port(name, 1, soon()); };
  };
  EXPECT_THROW(connect({})(), malformed_message);
  auto at = open_local_port();
  std::vector<std::byte> name = at->name();
  name.push_back(std::byte{0});
  EXPECT_THROW(connect(name)(), malformed_message);
  name.pop_back();
  at.reset();
  EXPECT_THAT(connect(name), ThrowsMessage<error>(HasSubstr("connecting to the host")));
  byte_writer elsewhere;
  elsewhere.text("another network");
  elsewhere.number(std::array<char, 32>{});
  EXPECT_THAT(connect(std::move(elsewhere).bytes()),
              ThrowsMessage<error>(HasSubstr("on another machine")));
}

} // namespace
} // namespace farcall::test::local_port_test
