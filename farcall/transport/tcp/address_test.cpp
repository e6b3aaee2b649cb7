// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace farcall::tcp::address_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

socket_address only(const std::string& host) { return resolve({host, 4500}).at(0); }

TEST(address, is_host_and_port) {
  const std::pair<const char*, address> forms[] = {
      {"node7:4500", {"node7", 4500}},
      {"node7.example.org:1", {"node7.example.org", 1}},
      {"my_node-2:65535", {"my_node-2", 65535}},
      {"192.0.2.1:80", {"192.0.2.1", 80}},
      {"0.0.0.0:80", {"0.0.0.0", 80}},
      {"[::1]:4500", {"::1", 4500}},
      {"[::]:4500", {"::", 4500}},
      {"[2001:db8::7]:4500", {"2001:db8::7", 4500}},
      {"[fe80::1%eth0]:4500", {"fe80::1%eth0", 4500}},
      {"[::ffff:192.0.2.1]:4500", {"::ffff:192.0.2.1", 4500}},
  };
  for (const auto& [text, parsed] : forms) {
    EXPECT_EQ(parse_address(text, "--listen"), parsed) << text;
    EXPECT_EQ(parsed.text(), text);
  }
}

TEST(address, may_be_the_path_of_a_unix_socket) {
  const address at = parse_server_address("/run/farcall.socket", "--listen");
  EXPECT_TRUE(at.is_path());
  EXPECT_EQ(at, (address{"/run/farcall.socket", 0}));
  EXPECT_EQ(at.text(), "/run/farcall.socket");
  EXPECT_EQ(at.url(), "unix:///run/farcall.socket");
  EXPECT_EQ((address{"node7", 9}.url()), "tcp://node7:9");
  EXPECT_EQ(numeric_address(at.text(), "it").text(), at.text());
  EXPECT_TRUE(resolve(at).at(0).is_loopback());
  EXPECT_FALSE(resolve(at).at(0).is_any());
  const std::string longest = "/" + std::string(106, 'x');
  EXPECT_EQ(numeric_address(longest, "it").numeric(), address{longest});
  for (const std::string& path : {longest + "x", std::string("/a b"), std::string("/a,b"),
                                  std::string("/a?b"), std::string("/a\nb")}) {
    EXPECT_THAT([&] { (void)parse_server_address(path, "--listen"); },
                ThrowsMessage<setting_error>(StartsWith("--listen is \"" + path + "\": ")))
        << path;
    EXPECT_THROW((void)numeric_address(path, "it"), malformed_message) << path;
  }
}

TEST(address, is_an_absolute_path_for_servers_only) {
  EXPECT_THROW((void)parse_address("/run/farcall.socket", "--status"), setting_error);
  EXPECT_EQ(parse_server_address("node7:9", "--listen"), (address{"node7", 9}));
  for (const char* text : {"./socket", "run/socket", "unix:///run/socket", "tcp://node7:9"})
    EXPECT_THAT([&] { (void)parse_server_address(text, "--listen"); },
                ThrowsMessage<setting_error>(HasSubstr("from the root on")))
        << text;
}

TEST(address, other_texts_are_refused_with_the_settings_name) {
  for (const char* text : {"",
                           ":",
                           "host",
                           "host:",
                           ":4500",
                           "host:port",
                           "host:-1",
                           "host:+1",
                           "host:65536",
                           "host:99999999999999999999",
                           "host:80 ",
                           " host:80",
                           "ho st:80",
                           "host:8 0",
                           "::1:4500",
                           "::1",
                           "[::1]",
                           "[::1]:",
                           "[::1]4500",
                           "[::1:4500",
                           "[]:4500",
                           "[host]:4500",
                           "[192.0.2.1]:4500",
                           "[fe80::1%]:4500",
                           "[::1]]:4500",
                           "[::1]:4500:4500",
                           "host/:80",
                           "user@host:80",
                           "host:80/x",
                           "host\n:80"}) {
    EXPECT_THAT([&] { (void)parse_address(text, "--listen"); },
                ThrowsMessage<setting_error>(HasSubstr("--listen")))
        << text;
  }
  EXPECT_THROW((void)parse_address(std::string_view("ho\0st:80", 8), "x"), setting_error);
  EXPECT_THROW((void)parse_address(std::string(254, 'a') + ":80", "x"), setting_error);
}

TEST(address, the_remedy_is_named) {
  EXPECT_THAT([] { (void)parse_address("::1:4500", "x"); },
              ThrowsMessage<setting_error>(AllOf(StartsWith("x is"), HasSubstr("brackets"))));
  EXPECT_THAT([] { (void)parse_address("host", "x"); },
              ThrowsMessage<setting_error>(HasSubstr("host:port")));
  EXPECT_THAT([] { (void)parse_address(":80", "x"); },
              ThrowsMessage<setting_error>(HasSubstr("0.0.0.0")));
}

TEST(address, port_0_is_allowed_on_request) {
  EXPECT_THROW((void)parse_address("host:0", "x"), setting_error);
  EXPECT_EQ(parse_address("host:0", "x", true), (address{"host", 0}));
}

TEST(resolve, takes_numbers_as_they_are) {
  for (const char* number : {"127.0.0.1", "192.0.2.1", "::1", "2001:db8::7"}) {
    const auto found = resolve({number, 4500});
    ASSERT_EQ(found.size(), 1U) << number;
    EXPECT_EQ(found[0].numeric(), (address{number, 4500}));
    EXPECT_EQ(found[0].port(), 4500);
  }
  EXPECT_EQ(only("::1").text(), "[::1]:4500");
  EXPECT_EQ(only("127.0.0.1").text(), "127.0.0.1:4500");
}

TEST(resolve, knows_this_machine) {
  const auto found = resolve({"localhost", 4500});
  ASSERT_FALSE(found.empty());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].is_loopback()) << found[i].text();
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(found[i].text(), found[j].text());
  }
}

TEST(resolve, names_the_host_that_it_does_not_find) {
  EXPECT_THAT([] { (void)resolve({"no-such-host.invalid", 4500}); },
              ThrowsMessage<error>(HasSubstr("no-such-host.invalid")));
}

TEST(socket_address, knows_loopback) {
  for (const char* number :
       {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:127.9.9.9"})
    EXPECT_TRUE(only(number).is_loopback()) << number;
  for (const char* number : {"128.0.0.1", "126.255.255.255", "0.0.0.0", "192.168.0.1", "::", "::2",
                             "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1", "7f00::1"})
    EXPECT_FALSE(only(number).is_loopback()) << number;
  EXPECT_FALSE(socket_address().is_loopback());
}

TEST(socket_address, takes_another_port) {
  for (const char* number : {"127.0.0.1", "::1"}) {
    socket_address at = only(number);
    at.set_port(9);
    EXPECT_EQ(at.numeric(), (address{number, 9}));
  }
}

TEST(socket_address_test, in_numbers_needs_no_name_server) {
  EXPECT_EQ(numeric_address("192.0.2.1:80", "it").text(), "192.0.2.1:80");
  EXPECT_EQ(numeric_address("[2001:db8::7]:81", "it").text(), "[2001:db8::7]:81");
  for (const char* text :
       {"localhost:80", "192.0.2.1", "192.0.2.1:0", "", "[::1%nowhere]:80", "1:2:3"})
    EXPECT_THROW((void)numeric_address(text, "it"), malformed_message) << text;
}

TEST(socket_address_test, knows_wildcard_and_link_local_addresses) {
  EXPECT_TRUE(only("0.0.0.0").is_any());
  EXPECT_TRUE(only("::").is_any());
  EXPECT_FALSE(only("127.0.0.1").is_any());
  EXPECT_FALSE(only("::1").is_any());
  EXPECT_TRUE(numeric_address("[fe80::1]:80", "it").is_of_link());
  EXPECT_FALSE(numeric_address("[2001:db8::1]:80", "it").is_of_link());
  EXPECT_FALSE(only("192.0.2.1").is_of_link());
}

} // namespace
} // namespace farcall::tcp::address_test
