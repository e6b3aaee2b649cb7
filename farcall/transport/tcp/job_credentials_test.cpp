// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/hmac.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::tcp::job_credentials_test {
namespace {

using namespace test_support;

std::string hexadecimal(std::span<const std::byte> all) {
  std::string text;
  for (const std::byte b : all) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

/// RFC 4231, cases 1, 2 and 6.
TEST(hmac_test, matches_the_standards_vectors) {
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

TEST(job_credentials_test, a_jobs_name_depends_on_its_key) {
  const job_credentials one = job_credentials::make(false);
  const job_credentials other = job_credentials::make(false);
  EXPECT_EQ(one.name, job_name_of(one.key));
  EXPECT_NE(one.name, other.name);
  EXPECT_NE(one.name, job_name_of(other.key));
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

TEST(job_credentials_test, a_proof_is_valid_for_one_request_only) {
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

TEST(job_credentials_test, a_reply_is_valid_for_one_node_and_nonce) {
  const job_credentials job = job_credentials::make(false);
  const nonce opener = new_nonce();
  const acceptor_reply reply = reply_to(opener, 2, job);
  EXPECT_TRUE(is_reply_of(2, reply, opener, job));
  EXPECT_FALSE(is_reply_of(3, reply, opener, job));
  EXPECT_FALSE(is_reply_of(2, reply, new_nonce(), job));
  EXPECT_FALSE(is_reply_of(2, reply, opener, job_credentials::make(false)));
  EXPECT_NE(reply.fresh, reply_to(opener, 2, job).fresh);
}

/// The proof of one end of an unencrypted connection is invalid for the other end.
TEST(job_credentials_test, a_reply_does_not_prove_a_request) {
  const job_credentials job = job_credentials::make(false);
  const nonce opener = new_nonce();
  const acceptor_reply reply = reply_to(opener, 2, job);
  connect_request o = some_request();
  o.proof = reply.proof;
  EXPECT_FALSE(is_signed(o, {opener, reply.fresh}, job));
}

} // namespace
} // namespace farcall::tcp::job_credentials_test
