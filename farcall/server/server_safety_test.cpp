// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/server/server_safety.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace farcall::test::server_safety_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

server_options at(const std::string& host) {
  server_options o;
  o.listen = {host, 7070};
  o.program = "./app";
  return o;
}

TEST(server_safety, needs_nothing_beside_a_key) {
  EXPECT_NO_THROW(detail::require_safe(at("0.0.0.0"), true));
  server_options o = at("127.0.0.1");
  o.plain = true;
  EXPECT_THAT([&] { detail::require_safe(o, true); },
              ThrowsMessage<setting_error>(HasSubstr("contradict")));
}

TEST(server_safety, needs_no_key_at_a_unix_socket) {
  EXPECT_NO_THROW(detail::require_safe(at("/run/app"), false));
}

TEST(server_safety, needs_a_flag_for_a_port_without_key) {
  server_options o = at("127.0.0.1");
  EXPECT_THAT([&] { detail::require_safe(o, false); },
              ThrowsMessage<setting_error>(
                  AllOf(HasSubstr("127.0.0.1:7070"), HasSubstr("--plain"), HasSubstr("./app"))));
  o.plain = true;
  EXPECT_NO_THROW(detail::require_safe(o, false));
}

TEST(server_safety, needs_another_flag_beyond_loopback) {
  server_options o = at("127.0.0.1");
  o.also_listen = {{"0.0.0.0", 7070}};
  o.plain = true;
  EXPECT_THAT([&] { detail::require_safe(o, false); },
              ThrowsMessage<setting_error>(
                  AllOf(HasSubstr("0.0.0.0"), HasSubstr("--i-trust-this-network"))));
  o.trusts_network = true;
  EXPECT_NO_THROW(detail::require_safe(o, false));
}

} // namespace
} // namespace farcall::test::server_safety_test
