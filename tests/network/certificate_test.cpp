#include "tests/network/support.hpp"

#include <farcall/offload/job_test_support.hpp>
#include <farcall/transport/tcp/certificate_test_support.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

/// Jobs whose host and server prove themselves with certificates.
namespace farcall::test {
namespace {

using std::chrono::hours;
using testing::AllOf;
using testing::HasSubstr;

class network_certificates : public testing::Test {
 protected:
  network_certificates() {
    made_.certify("authority", "authority");
    made_.certify("host", "authority");
    made_.certify("server", "authority");
    made_.certify("stranger_authority", "stranger_authority");
    made_.certify("stranger", "stranger_authority");
    made_.certify("old", "authority", hours(-2), hours(-1));
  }

  [[nodiscard]] server_options serving_as(const std::string& name) const {
    server_options o = local_server();
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

  /// The server is still there for those who may come.
  void expect_served(const server& s) const {
    const job j(calling_as("host", s));
    EXPECT_EQ(sync(j.targets().front(), [] { return 3; }), 3);
  }

  captured_log log_;
  tcp::test_support::certificate_maker made_;
};

/// The certificates are made for other names than that of this machine, which nobody asks for.
TEST_F(network_certificates, of_one_authority_make_a_job) {
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

TEST_F(network_certificates, of_another_authority_are_refused_with_a_reason_on_both_sides) {
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

TEST_F(network_certificates, without_one_nobody_comes_in) {
  const server s(serving_as("server"));
  EXPECT_THAT(start_failure(network_job(url_of(s))), HasSubstr("it wants a key"));
  expect_served(s);
}

} // namespace
} // namespace farcall::test
