#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/hmac.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

using namespace test_support;
using testing::HasSubstr;

std::string hexadecimal(std::span<const std::byte> all) {
  std::string text;
  for (const std::byte b : all) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

/// RFC 4231, cases 1, 2 and 6.
TEST(hmac_test, is_that_of_the_standard) {
  const struct {
    bytes key;
    std::string_view text;
    const char* expected;
  } cases[] = {
      {bytes(20, std::byte{0x0b}), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {bytes_of("Jefe"), "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {bytes(131, std::byte{0xaa}), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
  };
  for (const auto& c : cases) {
    const secret key = secret::copy_of(c.key);
    EXPECT_EQ(hexadecimal(hmac_of(key, bytes_of(c.text))), c.expected);
    EXPECT_EQ(hexadecimal(portable_hmac_of(key, bytes_of(c.text))), c.expected);
  }
}

TEST(hmac_test, is_the_same_with_and_without_openssl) {
  const secret key = secret::random(32);
  for (std::size_t size = 0; size < 300; ++size) {
    const bytes text = content(size, size);
    EXPECT_EQ(hmac_of(key, text), portable_hmac_of(key, text)) << size;
  }
}

connect_request some_request() {
  connect_request o;
  o.serial = 5;
  o.kind = connection_kind::lane;
  o.from = 1;
  o.to = 2;
  o.worker = 3;
  o.ring_bytes = 65536;
  return o;
}

TEST(job_credentials_test, a_proof_holds_for_nothing_else_than_what_was_signed) {
  const job_credentials job = job_credentials::make(false);
  const challenge c{new_nonce(), new_nonce()};
  connect_request signed_request = some_request();
  sign(signed_request, c, job);
  EXPECT_TRUE(is_signed(signed_request, c, job));
  for (std::size_t at = 0; at < sizeof signed_request; ++at) {
    connect_request other = signed_request;
    reinterpret_cast<std::byte*>(&other)[at] ^= std::byte{1};
    EXPECT_FALSE(is_signed(other, c, job)) << "byte " << at;
  }
  EXPECT_FALSE(is_signed(signed_request, {new_nonce(), c.acceptor}, job));
  EXPECT_FALSE(is_signed(signed_request, {c.opener, new_nonce()}, job));
  EXPECT_FALSE(is_signed(signed_request, {c.acceptor, c.opener}, job));
  job_credentials other_key = job_credentials::make(false);
  other_key.name = job.name;
  EXPECT_FALSE(is_signed(signed_request, c, other_key));
  job_credentials other_name = job.copy();
  other_name.name[0] ^= std::byte{1};
  EXPECT_FALSE(is_signed(signed_request, c, other_name));
}

TEST(job_credentials_test, a_reply_is_that_of_one_node_to_one_nonce) {
  const job_credentials job = job_credentials::make(false);
  const nonce opener = new_nonce();
  const acceptor_reply reply = reply_to(opener, 2, job);
  EXPECT_TRUE(is_reply_of(2, reply, opener, job));
  EXPECT_FALSE(is_reply_of(3, reply, opener, job));
  EXPECT_FALSE(is_reply_of(2, reply, new_nonce(), job));
  EXPECT_FALSE(is_reply_of(2, reply, opener, job_credentials::make(false)));
  EXPECT_NE(reply.fresh, reply_to(opener, 2, job).fresh);
}

/// What one end of an unencrypted connection says is no proof for the other end.
TEST(job_credentials_test, a_reply_does_not_prove_a_request) {
  const job_credentials job = job_credentials::make(false);
  const nonce opener = new_nonce();
  const acceptor_reply reply = reply_to(opener, 2, job);
  connect_request o = some_request();
  o.proof = reply.proof;
  EXPECT_FALSE(is_signed(o, {opener, reply.fresh}, job));
}

/// Both ends of an unencrypted connection, by way of one who may change what passes.
class plain_connection_test : public testing::Test {
 protected:
  plain_connection_test()
      : security_{std::make_shared<const job_credentials>(job_credentials::make(false)), nullptr} {}

  struct dialled_connection {
    std::unique_ptr<stream> connection;
    connect_request request;
    std::string why;
  };

  std::future<dialled_connection> dial_it(const connect_request& o) {
    const auto told = std::make_shared<std::promise<dialled_connection>>();
    dial(loop_, resolve(local_address(listeners_[0].get())), security_, o, std::chrono::seconds(30),
         clock::now() + std::chrono::seconds(30),
         [told](std::unique_ptr<stream> s, const connect_request& request, const std::string& why) {
           told->set_value({std::move(s), request, why});
         });
    return told->get_future();
  }

  /// Takes the connection, and the preamble off it, and hands it to node `self`.
  std::future<std::string> receive_it(node_id self) {
    std::optional<unique_fd> come;
    EXPECT_TRUE(
        test::eventually([&] { return (come = accept_from(listeners_[0].get())).has_value(); }));
    preamble first;
    EXPECT_TRUE(test::eventually([&] {
      return ::recv(come->get(), &first, sizeof first, MSG_DONTWAIT) ==
             static_cast<ssize_t>(sizeof first);
    }));
    EXPECT_EQ(flaw_of(first), nullptr);
    const auto told = std::make_shared<std::promise<std::string>>();
    (void)receive_connect_request(
        loop_, std::move(*come), security_, self, soon(),
        [told](const std::unique_ptr<stream>& s, const connect_request& o, const std::string& why) {
          told->set_value(s ? "from " + std::to_string(o.from) : why);
        });
    return told->get_future();
  }

  std::vector<unique_fd> listeners_ = listen_on({"127.0.0.1", 0});
  reactor loop_{"farcall-test"};
  connection_security security_;
};

TEST_F(plain_connection_test, both_ends_prove_themselves) {
  auto dialling = dial_it(some_request());
  auto receiving = receive_it(2);
  dialled_connection made = dialling.get();
  ASSERT_TRUE(made.connection) << made.why;
  const bytes request(reinterpret_cast<const std::byte*>(&made.request),
                      reinterpret_cast<const std::byte*>(&made.request + 1));
  EXPECT_EQ(write_all(*made.connection, request), io_status::done);
  EXPECT_EQ(receiving.get(), "from 1");
}

TEST_F(plain_connection_test, that_leads_to_another_node_is_noticed_by_who_dials) {
  auto dialling = dial_it(some_request());
  auto receiving = receive_it(3);
  const dialled_connection made = dialling.get();
  EXPECT_FALSE(made.connection);
  EXPECT_THAT(made.why, HasSubstr("another node"));
  EXPECT_EQ(receiving.get(), "") << "it has ended before it said what it wants";
}

} // namespace
} // namespace farcall::tcp
