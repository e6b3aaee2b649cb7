// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/base/version.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <optional>
#include <string>

#include <poll.h>
#include <sys/socket.h>

/// Tests hosts whose server is of another release: the error names both releases.
namespace farcall::test::release_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int at_most_ms = 20'000;

/// Accepts a connection, reads the bytes of a preamble, replies with `said`, and closes the
/// connection. Returns the preamble.
std::optional<tcp::preamble> serve_once(int listener, const std::string& said) {
  pollfd come{listener, POLLIN, 0};
  if (::poll(&come, 1, at_most_ms) != 1) return std::nullopt;
  const unique_fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  const timeval limit{at_most_ms / 1000, 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  tcp::preamble got;
  if (::recv(socket.get(), &got, sizeof got, MSG_WAITALL) != static_cast<ssize_t>(sizeof got))
    return std::nullopt;
  if (::send(socket.get(), said.data(), said.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(said.size()))
    return std::nullopt;
  return got;
}

/// Starts a job on a server that replies with these bytes, and returns the text of its failure.
std::string failure_at_server_that_says(const std::string& said) {
  const unique_fd listener = std::move(tcp::listen_on({"127.0.0.1", 0}).front());
  const std::uint16_t port = tcp::local_address(listener.get()).port;
  std::future<std::optional<tcp::preamble>> server =
      std::async(std::launch::async, serve_once, listener.get(), said);
  std::string why = text_thrown_by<start_failed>(
      [&] { const job j(network_job("tcp://127.0.0.1:" + std::to_string(port))); });
  const std::optional<tcp::preamble> got = server.get();
  EXPECT_EQ(got.value_or(tcp::preamble{.release = 0}).release, this_release) << why;
  return why;
}

template <class Message>
std::string bytes_of(const Message& m) {
  return {reinterpret_cast<const char*>(&m), sizeof m};
}

const std::string here = "farcall " + release_text(this_release) + " (wire version " +
                         std::to_string(wire_version) + ", connection version " +
                         std::to_string(tcp::connection_version) + ") here";

TEST(network_releases, a_server_of_another_release_is_named) {
  tcp::admission_message said;
  said.version = tcp::connection_version + 1;
  said.release = 0x000200;
  said.wire = wire_version + 1;
  said.word = tcp::admission::other_version;
  const auto names_both =
      AllOf(HasSubstr("node 1"), HasSubstr(here),
            HasSubstr("farcall 0.2.0 (wire version " + std::to_string(wire_version + 1)),
            HasSubstr("build both with the same farcall"));
  EXPECT_THAT(failure_at_server_that_says(bytes_of(said)), names_both);
  // The admission of a later version may be longer.
  EXPECT_THAT(failure_at_server_that_says(bytes_of(said) + std::string(100, '\xff')), names_both);
}

TEST(network_releases, a_server_without_a_release_is_named_by_versions) {
  // The admission of connection version 8 has 16 bytes.
  std::string said = bytes_of(tcp::admission_message{}).substr(0, 16);
  const std::array<std::uint32_t, 2> end{8,
                                         static_cast<std::uint32_t>(tcp::admission::other_version)};
  std::memcpy(said.data() + 8, end.data(), sizeof end);
  EXPECT_THAT(failure_at_server_that_says(said),
              AllOf(HasSubstr("node 1"), HasSubstr(here),
                    HasSubstr("(wire version 16 or less, connection version 8) there")));
}

} // namespace
} // namespace farcall::test::release_test
