// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/certificate_test_support.hpp>
#include <farcall/transport/tcp/tls_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include <sys/stat.h>

namespace farcall::tcp::tls_certificate_test {
namespace {

using namespace test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class tls_certificates : public ::testing::Test {
 protected:
  tls_certificates() {
    maker_.certify("authority", "authority");
    maker_.certify("host", "authority");
    maker_.certify("target", "authority");
    maker_.certify("stranger_authority", "stranger_authority");
    maker_.certify("stranger", "stranger_authority");
  }

  [[nodiscard]] std::string file(const std::string& name) const { return maker_.file(name); }

  [[nodiscard]] certificate_files files_of(const std::string& name,
                                           const std::string& authority = "authority") const {
    return {.certificate = file(name + ".pem"),
            .key = file(name + ".key"),
            .authority = file(authority + ".pem")};
  }

  [[nodiscard]] identity of(const std::string& name, const std::string& authority = "authority") {
    return tls_identity::with_certificates(files_of(name, authority));
  }

  /// Runs the handshake of a host and a server; the host expects that server name.
  static ends met(const identity& host, const identity& server, const std::string& name) {
    auto [near, far] = tcp_pair();
    ends both{tls_client(std::move(near), host, name), tls_server(std::move(far), server)};
    shake_hands(both);
    return both;
  }

  certificate_maker maker_;
};

TEST_F(tls_certificates, from_one_authority_trust_each_other) {
  auto [client, server] = connected(of("host"), of("target"));
  shake_hands({std::move(client), std::move(server)});
  ends both = connected(of("host"), of("target"));
  shake_hands(both);
  ASSERT_EQ(write_all(*both.client, bytes_of("there")), io_status::done) << both.client->failure();
  EXPECT_EQ(received(*both.server, 5), bytes_of("there"));
  both.client->finish();
  EXPECT_EQ(end_of(*both.server), io_status::closed);
}

TEST_F(tls_certificates, from_another_authority_are_refused) {
  const ends both = refused(of("stranger"), of("target"));
  EXPECT_THAT(both.server->failure(), HasSubstr("authority"));
  EXPECT_THAT(both.client->failure(), HasSubstr("authority"));
}

TEST_F(tls_certificates, a_server_of_another_authority_is_refused) {
  const ends both = refused(of("host"), of("stranger", "authority"));
  EXPECT_THAT(both.client->failure(), AllOf(HasSubstr("not accepted"), HasSubstr("authority")));
  EXPECT_FALSE(both.client->is_established());
}

TEST_F(tls_certificates, are_valid_in_their_period_only) {
  using std::chrono::hours;
  maker_.certify("old", "authority", hours(-2), hours(-1));
  maker_.certify("new", "authority", hours(1), hours(2));
  EXPECT_THAT(refused(of("old"), of("target")).server->failure(), HasSubstr("expired"));
  EXPECT_THAT(refused(of("new"), of("target")).server->failure(), HasSubstr("not yet valid"));
  const ends both = refused(of("host"), of("old"));
  EXPECT_FALSE(both.client->is_established());
  EXPECT_THAT(both.client->failure(), HasSubstr("expired"));
  EXPECT_THAT(both.server->failure(), HasSubstr("does not accept our certificate"));
}

TEST_F(tls_certificates, from_an_expired_authority_are_refused) {
  using std::chrono::hours;
  maker_.certify("old_authority", "old_authority", hours(-2), hours(-1));
  maker_.certify("late", "old_authority");
  EXPECT_THAT(refused(of("late", "old_authority"), of("late", "old_authority")).server->failure(),
              HasSubstr("expired"));
}

/// Only an authority may sign; otherwise each owner of a certificate could make more.
TEST_F(tls_certificates, that_another_certificate_has_signed_are_refused) {
  maker_.certify("made_by_host", "host");
  EXPECT_THAT(refused(of("made_by_host"), of("target")).server->failure(),
              HasSubstr("not accepted"));
}

TEST_F(tls_certificates, are_no_key) {
  EXPECT_FALSE(refused(of("host"), key()).client->is_established());
  const ends both = refused(key(), of("target"));
  EXPECT_FALSE(both.client->is_established());
  EXPECT_THAT(both.client->failure(), HasSubstr("key file"));
}

TEST_F(tls_certificates, files_that_do_not_fit_are_named) {
  const auto refuses = [&](const char* certificate, const char* own_key, const char* authority,
                           const char* culprit) {
    EXPECT_THAT(
        [&] {
          (void)tls_identity::with_certificates({.certificate = file(certificate),
                                                 .key = file(own_key),
                                                 .authority = file(authority)});
        },
        ThrowsMessage<setting_error>(HasSubstr(file(culprit))));
  };
  refuses("none.pem", "host.key", "authority.pem", "none.pem");
  refuses("host.pem", "none.key", "authority.pem", "none.key");
  refuses("host.pem", "host.key", "none.pem", "none.pem");
  refuses("host.pem", "target.key", "authority.pem", "target.key");
  refuses("host.key", "host.key", "authority.pem", "host.key");
  refuses("host.pem", "host.key", "host.key", "host.key");
  ASSERT_EQ(::chmod(file("host.pem").c_str(), 0600), 0);
  refuses("host.pem", "host.pem", "authority.pem", "host.pem");
  maker_.write_key("host", "pass");
  refuses("host.pem", "host.key", "authority.pem", "host.key");
  ASSERT_EQ(::chmod(file("target.key").c_str(), 0640), 0);
  refuses("target.pem", "target.key", "authority.pem", "target.key");
}

/// OpenSSL would block on a FIFO until it has a writer.
TEST_F(tls_certificates, must_not_be_pipes) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  const certificate_files good{
      .certificate = file("host.pem"), .key = file("host.key"), .authority = file("authority.pem")};
  for (std::string certificate_files::* which :
       {&certificate_files::certificate, &certificate_files::authority,
        &certificate_files::revoked}) {
    certificate_files bad = good;
    bad.*which = file("pipe");
    EXPECT_THAT(
        [&] { (void)tls_identity::with_certificates(bad); },
        ThrowsMessage<setting_error>(AllOf(HasSubstr(file("pipe")), HasSubstr("no regular file"))));
    bad.*which = file("nothing");
    EXPECT_THAT(
        [&] { (void)tls_identity::with_certificates(bad); },
        ThrowsMessage<setting_error>(AllOf(HasSubstr(file("nothing")), HasSubstr("No such file"))));
  }
}

TEST_F(tls_certificates, name_the_peer) {
  const ends both = met(of("host"), of("target"), "elsewhere.example");
  EXPECT_EQ(both.server->peer_name(), "host");
  EXPECT_EQ(both.client->peer_name(), "target");
}

// ---- servers ------------------------------------------------------------------------------------

TEST_F(tls_certificates, must_match_the_server_name_of_the_host) {
  maker_.certify("server", "authority",
                 "DNS:one.example,DNS:*.farm.example,IP:192.0.2.7,IP:fe80::1");
  for (const char* name :
       {"one.example", "ONE.example", "two.farm.example", "192.0.2.7", "fe80::1", "fe80::1%eth0"}) {
    EXPECT_TRUE(met(of("host"), of("server"), name).client->is_established()) << name;
  }
  for (const char* name : {"example", "two.example", "farm.example", "a.b.farm.example",
                           "192.0.2.8", "fe80::2", "server"}) {
    const ends both = met(of("host"), of("server"), name);
    EXPECT_FALSE(both.client->is_established()) << name;
    EXPECT_THAT(both.client->failure(),
                AllOf(HasSubstr("not for " + std::string(name)), HasSubstr("FARCALL_SERVER_KEY")));
    EXPECT_NE(write_all(*both.server, bytes_of("x")), io_status::done);
  }
}

/// The subject's name is for people.
TEST_F(tls_certificates, without_names_are_invalid_for_servers) {
  maker_.certify("one.example", "authority", "");
  EXPECT_FALSE(met(of("host"), of("one.example"), "one.example").client->is_established());
}

TEST_F(tls_certificates, are_valid_for_their_purpose_only) {
  maker_.certify("user", "authority", "DNS:one.example", "clientAuth");
  maker_.certify("server", "authority", "DNS:one.example", "serverAuth");
  EXPECT_TRUE(met(of("user"), of("server"), "one.example").client->is_established());
  // A user poses as a server of that name.
  const ends posing = met(of("user"), of("user"), "one.example");
  EXPECT_FALSE(posing.client->is_established());
  EXPECT_THAT(posing.client->failure(), HasSubstr("extendedKeyUsage"));
  const ends reversed = refused(of("server"), of("server"));
  EXPECT_THAT(reversed.server->failure(), HasSubstr("extendedKeyUsage"));
}

TEST_F(tls_certificates, can_be_pinned_by_the_servers_public_key) {
  maker_.certify("lone", "lone", "");
  maker_.certify("other", "other", "");
  certificate_files serving = files_of("lone");
  const identity server = tls_identity::with_certificates(serving);
  const std::string pinned = server->own_public_key();
  // The form that curl and browsers take, except for the sign after "sha256".
  EXPECT_THAT(pinned, ::testing::MatchesRegex("sha256:[A-Za-z0-9+/]{43}="));
  certificate_files calling = files_of("host", "none");
  calling.authority.clear();
  calling.server_keys = pinned;
  const identity host = tls_identity::with_certificates(calling);
  EXPECT_TRUE(met(host, server, "any.example").client->is_established());
  const ends both = met(host, tls_identity::with_certificates(files_of("other")), "any.example");
  EXPECT_FALSE(both.client->is_established());
  EXPECT_THAT(both.client->failure(), HasSubstr("another public key than FARCALL_SERVER_KEY"));
  // Both keys are accepted while servers change theirs.
  calling.server_keys = of("other", "authority")->own_public_key() + "," + pinned;
  EXPECT_TRUE(met(tls_identity::with_certificates(calling), server, "").client->is_established());
  // If an authority is given, its signature is required, too.
  calling.authority = file("authority.pem");
  EXPECT_FALSE(met(tls_identity::with_certificates(calling), server, "").client->is_established());
}

TEST_F(tls_certificates, a_public_key_is_checked_when_it_is_read) {
  certificate_files calling = files_of("host");
  const std::string good = of("host")->own_public_key();
  for (const std::string& text : {std::string("sha256:"), good.substr(7), good + "=", good + ",",
                                  "," + good, good.substr(0, good.size() - 1) + "A",
                                  "sha256:!" + good.substr(8), "sha1:" + good.substr(7)}) {
    calling.server_keys = text;
    EXPECT_THAT([&] { (void)tls_identity::with_certificates(calling); },
                ThrowsMessage<setting_error>(HasSubstr("public key")))
        << text;
  }
}

// ---- revoked ones -------------------------------------------------------------------------------

TEST_F(tls_certificates, that_were_revoked_are_refused) {
  maker_.certify("second", "authority");
  maker_.revoke({"host"}, "authority");
  certificate_files serving = files_of("target");
  serving.revoked = file("authority.crl");
  const identity server = tls_identity::with_certificates(serving);
  EXPECT_THAT(refused(of("host"), server).server->failure(), HasSubstr("revoked"));
  EXPECT_TRUE(met(of("second"), server, "").server->is_established());
}

TEST_F(tls_certificates, revocation_lists_must_be_current_and_the_authoritys) {
  certificate_files serving = files_of("target");
  maker_.revoke({"stranger"}, "stranger_authority");
  serving.revoked = file("stranger_authority.crl");
  EXPECT_THAT(refused(of("host"), tls_identity::with_certificates(serving)).server->failure(),
              HasSubstr("CRL"));
  maker_.revoke({}, "authority", std::chrono::hours(-1));
  serving.revoked = file("authority.crl");
  EXPECT_THAT(refused(of("host"), tls_identity::with_certificates(serving)).server->failure(),
              HasSubstr("CRL has expired"));
  for (const char* none : {"none.crl", "host.pem"}) {
    serving.revoked = file(none);
    EXPECT_THAT([&] { (void)tls_identity::with_certificates(serving); },
                ThrowsMessage<setting_error>(HasSubstr(file(none))));
  }
}

} // namespace
} // namespace farcall::tcp::tls_certificate_test
