// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/bytes.hpp>
#include <farcall/base/error.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/secret.hpp>

namespace farcall::tcp {

nonce new_nonce() {
  nonce made;
  fill_with_random(made);
  return made;
}

const char* flaw_of(const preamble& p) noexcept {
  if (p.magic != preamble_magic) return "it does not begin as a connection of farcall does";
  if (p.version != connection_version) return "it comes from another version of farcall";
  if (p.kind < connection_kind::control || p.kind > connection_kind::join) {
    return "it is of an unknown kind";
  }
  if (p.is_encrypted > 1) return "it is neither plain nor encrypted";
  return nullptr;
}

const char* refusal_text(admission word) noexcept {
  switch (word) {
  case admission::other_version:
    return "it is built with another version of farcall; build both with the same";
  case admission::needs_key:
    return "it wants a key or a certificate, and this program was given neither: set "
           "FARCALL_KEY=FILE, or FARCALL_CERTIFICATE, FARCALL_CERTIFICATE_KEY and "
           "FARCALL_AUTHORITY, or the like in job_options";
  case admission::has_no_key:
    return "it was started without a key or certificate, and this program has one; start it with "
           "'farcall serve --key FILE', or --clients or --certificate";
  case admission::is_full:
    return "it has as many targets as it may have ('farcall serve --most-targets')";
  case admission::is_draining:
    return "it is draining: it lets the targets that it has finish, starts no more, and then ends; "
           "use another server, or this one when it is there again";
  case admission::is_of_another_user:
    return "it has no key, and is there for its own user only; start it with 'farcall serve --key "
           "FILE'";
  case admission::has_no_lane_left:
    return "this client has as many connections to its targets on that server as it may have "
           "(lanes= of its line in the server's file of clients)";
  case admission::come_in:
    break;
  }
  return "it said something that is no reply";
}

void require_admission(const admission_message& reply) {
  if (reply.magic != preamble_magic) throw error("it is no server of farcall");
  if (reply.version != connection_version) throw error(refusal_text(admission::other_version));
  if (reply.word != admission::come_in) throw error(refusal_text(reply.word));
}

bool is_ring_size(std::uint64_t bytes) noexcept {
  return bytes >= min_ring && bytes <= max_ring && is_power_of_two(bytes);
}

} // namespace farcall::tcp
