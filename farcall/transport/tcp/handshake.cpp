// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/bytes.hpp>
#include <farcall/base/error.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <cstddef>

namespace farcall::tcp {
namespace {

std::string name_of(std::uint32_t release, const std::string& wire, std::uint32_t connection) {
  return "farcall " + release_text(release) + " (wire version " + wire + ", connection version " +
         std::to_string(connection) + ")";
}

/// Returns the text about a preamble or admission of another version.
template <class Message>
std::string version_text(const Message& m) {
  // Versions before the first one with a release have other fields in place of the release.
  const std::string there =
      m.version < first_connection_version_with_release
          ? name_of(0, std::to_string(first_wire_version_with_release - 1) + " or less", m.version)
          : name_of(m.release, std::to_string(m.wire), m.version);
  return "it is built with another version of farcall: " +
         difference_text(name_of(this_release, std::to_string(wire_version), connection_version),
                         there);
}

template <class Message>
std::size_t deciding_bytes_of(const Message& m, std::size_t have) noexcept {
  constexpr std::size_t version_end = offsetof(Message, version) + sizeof m.version;
  if (have >= sizeof m.magic && m.magic != preamble_magic) return sizeof m.magic;
  if (have < version_end || m.version == connection_version) return sizeof m;
  return m.version < first_connection_version_with_release
             ? version_end
             : offsetof(Message, wire) + sizeof m.wire;
}

} // namespace

nonce new_nonce() {
  nonce made;
  fill_with_random(made);
  return made;
}

std::size_t deciding_bytes(const preamble& p, std::size_t have) noexcept {
  return deciding_bytes_of(p, have);
}

std::size_t deciding_bytes(const admission_message& m, std::size_t have) noexcept {
  return deciding_bytes_of(m, have);
}

std::string flaw_of(const preamble& p) {
  if (p.magic != preamble_magic) return "it does not begin as a connection of farcall does";
  if (p.version != connection_version) return version_text(p);
  if (p.kind < connection_kind::control || p.kind > connection_kind::join) {
    return "it is of an unknown kind";
  }
  if (p.is_encrypted > 1) return "it is neither plain nor encrypted";
  return {};
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

std::string refusal_text(const admission_message& reply) {
  return reply.version == connection_version ? refusal_text(reply.word) : version_text(reply);
}

void require_admission(const admission_message& reply) {
  if (reply.magic != preamble_magic) throw error("it is no server of farcall");
  if (reply.version != connection_version || reply.word != admission::come_in)
    throw error(refusal_text(reply));
}

bool is_ring_size(std::uint64_t bytes) noexcept {
  return bytes >= min_ring && bytes <= max_ring && is_power_of_two(bytes);
}

} // namespace farcall::tcp
