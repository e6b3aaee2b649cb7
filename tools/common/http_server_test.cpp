// SPDX-License-Identifier: Apache-2.0
#include "http_server.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <poll.h>
#include <sys/socket.h>

namespace farcall::tool {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// Limit of waits.
constexpr std::chrono::seconds long_enough{20};

class http_server_test : public testing::Test {
 protected:
  [[nodiscard]] unique_fd connect() const {
    return tcp::connect_to(server_.addresses().front(), clock::now() + long_enough);
  }

  static void say(const unique_fd& to, std::string_view words) {
    (void)::send(to.get(), words.data(), words.size(), MSG_NOSIGNAL);
  }

  /// Receives until the server closes the connection.
  static std::string receive(const unique_fd& from) {
    std::string text;
    for (const time_point end = clock::now() + long_enough; clock::now() < end;) {
      pollfd waiting{from.get(), POLLIN, 0};
      ::poll(&waiting, 1, 1000);
      std::array<char, 4096> piece;
      const ssize_t got = ::recv(from.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return text;
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
    ADD_FAILURE() << "the server does not end the connection";
    return text;
  }

  [[nodiscard]] std::string reply_to(std::string_view request) const {
    const unique_fd client = connect();
    say(client, request);
    return receive(client);
  }

  int asked_ = 0;
  http_server server_{
      {"127.0.0.1", 0},
      {{"/page", [this] { return http_reply{200, std::to_string(++asked_)}; }},
       {"/down", [] { return http_reply{503, "down\n"}; }},
       {"/large", [] { return http_reply{200, fmt::format("{:x>10000000}", "")}; }},
       {"/throws", []() -> http_reply { throw std::runtime_error("no page today"); }}}};
};

TEST_F(http_server_test, replies_with_pages) {
  const std::string reply = reply_to("GET /page?what HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 1\r\n"),
                           EndsWith("\r\n\r\n1")));
  EXPECT_THAT(
      reply_to("HEAD /page HTTP/1.0\r\n\r\n"),
      AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Length: 1\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(reply_to("GET /down HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(reply_to("GET /throws HTTP/1.0\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 500 "), EndsWith("no page today\n")));
  EXPECT_EQ(reply_to("GET /large HTTP/1.0\r\n\r\n").size() / 10'000'000, 1U);
}

TEST_F(http_server_test, refuses_what_it_does_not_understand) {
  EXPECT_THAT(reply_to("GET /other HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(reply_to("POST /page HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, HEAD\r\n")));
  for (const char* request : {"\r\n\r\n", "GET\r\n\r\n", "GET /page\r\n\r\n", " \r\n\r\n",
                              "GET /page FTP/1.1\r\n\r\n", "GET page HTTP/1.1\r\n\r\n",
                              "GET /page HTTP/1.1\r\n\r\n", "\x16\x03\x01 \xFF \x80\r\n\r\n"})
    EXPECT_THAT(reply_to(request), StartsWith("HTTP/1.1 400 ")) << request;
  EXPECT_THAT(reply_to("GET /page HTTP/1.1\r\nX: " + std::string(9000, 'a')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(asked_, 0);
}

TEST_F(http_server_test, on_loopback_a_page_of_another_name_is_refused) {
  for (const char* host : {"evil.example", "127.evil.example:80", "[2001:db8::1]:80"}) {
    EXPECT_THAT(reply_to("GET /page HTTP/1.1\r\nhOST:" + std::string(host) + "\r\n\r\n"),
                StartsWith("HTTP/1.1 403 "))
        << host;
  }
  for (const char* host : {"localhost:1", "LocalHost", "127.0.0.2", "[::1]:80"}) {
    EXPECT_THAT(reply_to("GET /page HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"),
                StartsWith("HTTP/1.1 200 "))
        << host;
  }
}

TEST_F(http_server_test, a_space_in_a_field_name_is_refused) {
  for (const char* field : {"Host : localhost", "Host\t: localhost", " Host: localhost"}) {
    EXPECT_THAT(reply_to("GET /page HTTP/1.1\r\n" + std::string(field) + "\r\n\r\n"),
                StartsWith("HTTP/1.1 400 "))
        << field;
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(http_server_test, a_request_with_several_hosts_is_refused) {
  for (const char* second : {"Host: evil.example", "hOST:localhost", "Host:"}) {
    EXPECT_THAT(reply_to("GET /page HTTP/1.1\r\nHost: localhost\r\nX: y\r\n" + std::string(second) +
                         "\r\n\r\n"),
                StartsWith("HTTP/1.1 400 "))
        << second;
  }
  EXPECT_THAT(reply_to("GET /page HTTP/1.1\r\nHost:\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(asked_, 0);
}

TEST_F(http_server_test, silent_clients_delay_nobody_and_are_disconnected) {
  std::vector<unique_fd> silent;
  for (int i = 0; i < 100; ++i)
    silent.push_back(connect());
  const unique_fd slow = connect();
  say(slow, "GET /page HTTP/1.1\r\nX: ");
  const unique_fd no_reader = connect();
  say(no_reader, "GET /large HTTP/1.0\r\n\r\n");
  EXPECT_THAT(reply_to("GET /page HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  for (const unique_fd& s : silent)
    EXPECT_EQ(receive(s), "");
  EXPECT_EQ(receive(slow), "");
  EXPECT_THAT(reply_to("GET /page HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

} // namespace
} // namespace farcall::tool
