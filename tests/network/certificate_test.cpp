// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/certificate_test_support.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>

/// Tests jobs whose host and server prove themselves with certificates.
namespace farcall::test {
namespace {

using std::chrono::hours;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Address of the tests' servers.
constexpr const char* here = "IP:127.0.0.1";

class network_certificates : public testing::Test {
 protected:
  network_certificates() {
    made_.certify("authority", "authority");
    made_.certify("host", "authority");
    made_.certify("server", "authority", here);
    made_.certify("stranger_authority", "stranger_authority");
    made_.certify("stranger", "stranger_authority", here);
    made_.certify("old", "authority", here, "", hours(-2), hours(-1));
  }

  [[nodiscard]] server_options serving_as(const std::string& name) const {
    server_options o = local_server();
    o.plain = false;
    o.access.certificate = made_.file(name + ".pem");
    o.access.certificate_key = made_.file(name + ".key");
    o.access.authority = made_.file("authority.pem");
    return o;
  }

  [[nodiscard]] job_options calling_as(const std::string& name, const server& s,
                                       const std::string& count = "") const {
    job_options o = network_job(url_of(s) + count);
    o.certificate = made_.file(name + ".pem");
    o.certificate_key = made_.file(name + ".key");
    o.authority = made_.file("authority.pem");
    return o;
  }

  static std::string start_failure(const job_options& o) {
    return text_thrown_by<start_failed>([&] { const job j(o); });
  }

  /// Checks that the server still serves hosts.
  void expect_served(const server& s) const {
    const job j(calling_as("host", s));
    EXPECT_EQ(sync(j.targets().front(), [] { return 3; }), 3);
  }

  captured_log log_;
  tcp::test_support::certificate_maker made_;
};

TEST_F(network_certificates, from_one_authority_make_a_job) {
  const server s(serving_as("server"));
  const job j(calling_as("host", s, "?count=2"));
  const node& first = j.targets().at(0);
  const node& second = j.targets().at(1);
  EXPECT_THAT(first.description().route, HasSubstr("encrypted"));
  EXPECT_EQ(sync(first, [](const node& n) { return sync(n, [] { return 5; }); }, second), 5);
  const std::vector<int> sent(100'000, 7);
  std::vector<int> got(sent.size());
  const auto there = second.allocate<int>(sent.size());
  put(sent, there).get();
  get(there, got).get();
  EXPECT_EQ(got, sent);
}

TEST_F(network_certificates, from_another_authority_are_refused_with_reasons) {
  const server s(serving_as("server"));
  EXPECT_THAT(start_failure(calling_as("stranger", s)),
              AllOf(HasSubstr("node 1"), HasSubstr("certificate"), HasSubstr("authority")));
  EXPECT_TRUE(log_.comes_to_say("the certificate of the other side is not accepted"));
  expect_served(s);
}

TEST_F(network_certificates, a_server_of_another_authority_is_not_used) {
  const server s(serving_as("stranger"));
  EXPECT_THAT(start_failure(calling_as("host", s)),
              AllOf(HasSubstr("the certificate of the other side is not accepted"),
                    HasSubstr("authority")));
  EXPECT_EQ(s.targets(), 0U);
}

TEST_F(network_certificates, that_have_expired_are_refused) {
  const server s(serving_as("server"));
  EXPECT_THAT(start_failure(calling_as("old", s)), HasSubstr("expired"));
  EXPECT_TRUE(log_.comes_to_say("has expired"));
  expect_served(s);
  const server old(serving_as("old"));
  EXPECT_THAT(start_failure(calling_as("host", old)), HasSubstr("has expired"));
  EXPECT_EQ(old.targets(), 0U);
}

TEST_F(network_certificates, must_match_the_servers_address_in_targets) {
  made_.certify("elsewhere", "authority", "DNS:elsewhere.example");
  const server s(serving_as("elsewhere"));
  EXPECT_THAT(start_failure(calling_as("host", s)),
              AllOf(HasSubstr("node 1"), HasSubstr("not for 127.0.0.1")));
  EXPECT_EQ(s.targets(), 0U);
}

/// Another user of the same authority poses as the server.
TEST_F(network_certificates, for_users_are_not_valid_for_servers) {
  made_.certify("user", "authority", "DNS:user.example", "clientAuth");
  const server s(serving_as("host"));
  EXPECT_THAT(start_failure(calling_as("user", s)), HasSubstr("not for 127.0.0.1"));
  made_.certify("sly_user", "authority", here, "clientAuth");
  const server sly(serving_as("sly_user"));
  EXPECT_THAT(start_failure(calling_as("user", sly)), HasSubstr("extendedKeyUsage"));
}

TEST_F(network_certificates, can_be_pinned_by_the_servers_public_key) {
  made_.certify("lone", "lone", "");
  const server s(serving_as("lone"));
  const std::string said = s.protection_at(s.addresses().front());
  job_options o = calling_as("host", s);
  o.authority.clear();
  o.server_key = said.substr(said.find("sha256:"));
  {
    const job j(o);
    EXPECT_EQ(sync(j.targets().front(), [] { return 3; }), 3);
  }
  const server other(serving_as("server"));
  o.targets = url_of(other);
  EXPECT_THAT(start_failure(o), HasSubstr("another public key"));
}

/// Certificates cannot name a path.
TEST_F(network_certificates, at_unix_sockets_are_pinned_by_keys) {
  server_options at_path = serving_as("server");
  at_path.listen = {made_.file("socket")};
  const server s(at_path);
  job_options o = calling_as("host", s, "?count=2");
  EXPECT_THAT(start_failure(o),
              AllOf(HasSubstr("no names for Unix sockets"), HasSubstr("FARCALL_SERVER_KEY")));
  const std::string said = s.protection_at(s.addresses().front());
  o.server_key = said.substr(said.find("sha256:"));
  const job j(o);
  const node first = j.targets().at(0);
  const node second = j.targets().at(1);
  EXPECT_THAT(first.description().route, AllOf(HasSubstr("Unix socket"), HasSubstr(", encrypted")));
  EXPECT_EQ(sync(first, [](const node& n) { return sync(n, [] { return 3; }); }, second), 3);
}

TEST_F(network_certificates, are_read_again) {
  made_.certify("second_host", "authority");
  server_options serving = serving_as("server");
  made_.revoke({}, "authority");
  serving.access.revoked = made_.file("authority.crl");
  const server s(serving);
  const job running(calling_as("host", s));
  made_.revoke({"host"}, "authority");
  expect_served(s);
  s.reload();
  EXPECT_THAT(start_failure(calling_as("host", s)), HasSubstr("certificate"));
  EXPECT_TRUE(log_.comes_to_say("revoked"));
  const job second(calling_as("second_host", s));
  EXPECT_EQ(sync(running.targets().front(), [] { return 4; }), 4) << "what runs stays";
  std::filesystem::remove(made_.file("authority.crl"));
  EXPECT_THAT([&] { s.reload(); },
              ThrowsMessage<setting_error>(HasSubstr(made_.file("authority.crl"))));
  const job third(calling_as("second_host", s));
}

TEST_F(network_certificates, and_keys_do_not_go_together) {
  const scratch_folder folder;
  tcp::write_key_file(folder.file("key"));
  const server s(serving_as("server"));
  EXPECT_THAT(start_failure(network_job(url_of(s), folder.file("key"))), HasSubstr("key file"));
  expect_served(s);
  const server with_key(local_server(folder.file("key")));
  EXPECT_THAT(start_failure(calling_as("host", with_key)), HasSubstr("key"));
  EXPECT_EQ(with_key.targets(), 0U);
}

TEST_F(network_certificates, are_required_by_the_server) {
  const server s(serving_as("server"));
  EXPECT_THAT(start_failure(network_job(url_of(s))),
              AllOf(HasSubstr("it wants a key or a certificate"), HasSubstr("FARCALL_CERTIFICATE"),
                    HasSubstr("FARCALL_AUTHORITY")));
  const server without(local_server());
  EXPECT_THAT(
      start_failure(calling_as("host", without)),
      AllOf(HasSubstr("it was started without a key or certificate"), HasSubstr("--certificate")));
  expect_served(s);
}

} // namespace
} // namespace farcall::test
