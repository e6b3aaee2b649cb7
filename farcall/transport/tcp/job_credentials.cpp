// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/text.hpp>
#include <farcall/transport/tcp/hmac.hpp>
#include <farcall/transport/tcp/job_credentials.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace farcall::tcp {
namespace {

/// Roles of the end that makes a proof. The role is part of the proof, so that the proof of one end
/// is invalid for the other end.
constexpr std::uint64_t as_opener = 1;
constexpr std::uint64_t as_acceptor = 2;
/// Role for the hash that is used as the job's name; it proves nothing.
constexpr std::uint64_t as_name = 3;

byte_writer beginning(std::uint64_t role, const nonce& opener, const nonce& acceptor,
                      const job_credentials& job) {
  byte_writer w;
  w.number(role);
  w.number(opener);
  w.number(acceptor);
  w.number(job.name);
  return w;
}

hmac proof_of(const connect_request& request, const challenge& c, const job_credentials& job) {
  byte_writer w = beginning(as_opener, c.opener, c.acceptor, job);
  connect_request rest = request;
  rest.proof = {};
  w.number(rest);
  return hmac_of(job.key, std::move(w).bytes());
}

hmac proof_of(node_id acceptor, const nonce& fresh, const nonce& opener,
              const job_credentials& job) {
  byte_writer w = beginning(as_acceptor, opener, fresh, job);
  w.number(acceptor);
  return hmac_of(job.key, std::move(w).bytes());
}

} // namespace

job_name job_name_of(const secret& key) {
  byte_writer w;
  w.number(as_name);
  const hmac all = hmac_of(key, std::move(w).bytes());
  job_name name{};
  std::copy_n(all.begin(), name.size(), name.begin());
  return name;
}

job_credentials job_credentials::make(bool is_encrypted) {
  job_credentials made;
  made.key = secret::random(job_key_bytes);
  made.name = job_name_of(made.key);
  made.is_encrypted = is_encrypted;
  return made;
}

job_credentials job_credentials::copy() const {
  job_credentials other;
  other.name = name;
  other.key = secret::copy_of(key.bytes());
  other.is_encrypted = is_encrypted;
  return other;
}

std::shared_ptr<const tls_identity> job_credentials::identity() const {
  if (!is_encrypted) return nullptr;
  return tls_identity::with_key(hexadecimal(name), secret::copy_of(key.bytes()));
}

void sign(connect_request& request, const challenge& c, const job_credentials& job) {
  request.proof = proof_of(request, c, job);
}

bool is_signed(const connect_request& request, const challenge& c, const job_credentials& job) {
  return same_in_constant_time(request.proof, proof_of(request, c, job));
}

acceptor_reply reply_to(const nonce& opener, node_id self, const job_credentials& job) {
  acceptor_reply made;
  made.fresh = new_nonce();
  made.proof = proof_of(self, made.fresh, opener, job);
  return made;
}

bool is_reply_of(node_id to, const acceptor_reply& reply, const nonce& opener,
                 const job_credentials& job) {
  return same_in_constant_time(reply.proof, proof_of(to, reply.fresh, opener, job));
}

} // namespace farcall::tcp
