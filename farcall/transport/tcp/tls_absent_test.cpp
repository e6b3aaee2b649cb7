// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/tls.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tcp::tls_absent_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(tls_absent, says_what_is_missing) {
  EXPECT_FALSE(tls_is_built_in());
  const auto names_it = ThrowsMessage<error>(HasSubstr("libssl-dev"));
  EXPECT_THAT([] { (void)tls_identity::with_key("name", secret::random(key_bytes)); }, names_it);
  EXPECT_THAT([] { (void)tls_identity::with_certificates({"a", "b", "c"}); }, names_it);
  EXPECT_THAT([] { (void)tls_identity::with_keys({}); }, names_it);
  EXPECT_THAT([] { (void)tls_client(unique_fd(), nullptr); }, names_it);
  EXPECT_THAT([] { (void)tls_server(unique_fd(), nullptr); }, names_it);
}

} // namespace
} // namespace farcall::tcp::tls_absent_test
