// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/access.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

/// Tests of credentials before any file is read.
namespace farcall::test::access_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string good = "sha256:AZaz09+/" + std::string(35, 'x') + "=";

TEST(server_keys, are_lists_of_digests) {
  EXPECT_NO_THROW(check_server_keys(good));
  EXPECT_NO_THROW(check_server_keys(good + "," + good));
  const std::string cut = good.substr(0, good.size() - 1);
  for (const std::string& text :
       {std::string(), std::string("sha256:"), good.substr(7), good + "=", cut, cut + "A",
        good + ",", "," + good, good + ";" + good, "sha1:" + good.substr(7), "SHA" + good.substr(3),
        "sha256:=" + good.substr(8), "sha256:-" + good.substr(8), " " + good, good + " "}) {
    EXPECT_THAT([&] { check_server_keys(text); },
                ThrowsMessage<setting_error>(HasSubstr("is no public key of a server")))
        << text;
  }
}

TEST(credentials, are_a_key_or_all_certificates) {
  EXPECT_NO_THROW(check_access({}));
  EXPECT_NO_THROW(check_access({.key = "k"}));
  EXPECT_NO_THROW(check_access({.certificate = "c", .certificate_key = "k", .authority = "a"}));
  EXPECT_NO_THROW(check_access({.certificate = "c", .certificate_key = "k", .server_key = good}));
  for (const access& a :
       {access{.certificate = "c"}, access{.certificate_key = "k"}, access{.authority = "a"},
        access{.server_key = good}, access{.certificate = "c", .certificate_key = "k"},
        access{.certificate_key = "k", .authority = "a"}}) {
    EXPECT_THAT([&] { check_access(a); },
                ThrowsMessage<setting_error>(HasSubstr("certificates need three files")));
  }
  EXPECT_THAT([] { check_access({.key = "k", .server_key = good}); },
              ThrowsMessage<setting_error>(HasSubstr("choose one of them")));
  EXPECT_THAT([] { check_access({.certificate = "c", .certificate_key = "k", .server_key = "s"}); },
              ThrowsMessage<setting_error>(HasSubstr("\"s\" is no public key")));
}

} // namespace
} // namespace farcall::test::access_test
