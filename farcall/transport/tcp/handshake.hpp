// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/version.hpp>
#include <farcall/transport/wire_release.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

/// The first bytes of every connection (docs/wire.md). First, an unencrypted preamble says which
/// node the connection is for. On a control connection, the server replies with its admission. On
/// all other connections, a connect request follows, which proves that the connection may be made.
/// The request is encrypted if the job's connections are encrypted. If they are not, both ends
/// exchange nonces before the request, so that a recorded request proves nothing.
namespace farcall::tcp {

inline constexpr std::uint64_t preamble_magic = 0x0a6c6c6163726166; // "farcall\n"
/// Version of the format of all bytes that a connection carries before the nodes send their cards.
inline constexpr std::uint32_t connection_version = 9;
/// First connection version in which preamble and admission name the sender's release. In these and
/// all later versions, both begin with the same 20 bytes, so that each end can name the release of
/// the other end, whichever bytes follow.
inline constexpr std::uint32_t first_connection_version_with_release = 9;

enum class connection_kind : std::uint32_t {
  control = 1,   ///< a host asks a server for a node
  lane = 2,      ///< a lane that its opener dials
  bulk = 3,      ///< copies; the requester dials
  lane_back = 4, ///< a lane that the acceptor dials, because the opener cannot dial
  bulk_back = 5, ///< a connection for copies that the serving node dials, because the requester
                 ///< cannot
  join = 6,      ///< a process that something other than the host has started joins at the host's
                 ///< port
};

/// Public name of a job, unique among all jobs of a server.
using job_name = std::array<std::byte, 16>;
/// Size in bytes of the job key, which only the job's nodes have.
inline constexpr std::size_t job_key_bytes = 32;

struct preamble {
  std::uint64_t magic = preamble_magic;
  std::uint32_t version = connection_version;
  std::uint32_t release = this_release;
  std::uint32_t wire = wire_version;
  connection_kind kind{};
  std::uint32_t is_encrypted = 0;
  std::uint32_t to = 0; ///< node
  job_name job{};
};
static_assert(sizeof(preamble) == 48 && offsetof(preamble, kind) == 20);

/// Returns a text that says why the preamble is invalid, or an empty text if it is valid. The first
/// deciding_bytes() of the preamble must have arrived. If the preamble is of another version, the
/// text names both releases.
[[nodiscard]] std::string flaw_of(const preamble& p);

/// The server's reply on a control connection. The reply is not encrypted, so that a client that is
/// refused can read the reason.
enum class admission : std::uint32_t {
  come_in = 1,
  other_version = 2,
  needs_key = 3,
  has_no_key = 4,
  is_full = 5,
  is_draining = 6,
  is_of_another_user = 7,
  /// The client already has as many connections as it may have. Sent on a connection for a lane or
  /// for copies, in place of the node's proof.
  has_no_lane_left = 8,
};
struct admission_message {
  std::uint64_t magic = preamble_magic;
  std::uint32_t version = connection_version;
  std::uint32_t release = this_release;
  std::uint32_t wire = wire_version;
  admission word{};
};
static_assert(sizeof(admission_message) == 24 && offsetof(admission_message, word) == 20);

/// Returns the number of bytes of a preamble or admission that must have arrived before it is
/// judged. `have` is the number of bytes that have arrived. The result is less than the size of the
/// message only if the bytes are of another program or version: such a message may be shorter.
[[nodiscard]] std::size_t deciding_bytes(const preamble& p, std::size_t have) noexcept;
[[nodiscard]] std::size_t deciding_bytes(const admission_message& m, std::size_t have) noexcept;

/// Returns the text for users that explains a refusal, which is any admission other than come_in.
[[nodiscard]] const char* refusal_text(admission word) noexcept;
/// Returns the same text for a server's reply. If the reply is of another version, the text names
/// both releases.
[[nodiscard]] std::string refusal_text(const admission_message& reply);

/// Throws error with the reason if the server's reply is not come_in. The first deciding_bytes() of
/// the reply must have arrived.
void require_admission(const admission_message& reply);

/// Random bytes that are new for each connection, so that a proof over them is fresh.
using nonce = std::array<std::byte, 32>;
[[nodiscard]] nonce new_nonce();

/// Nonces of both ends of an unencrypted connection. The opener sends its nonce first. Both are
/// zero inside TLS, which has its own nonces.
struct challenge {
  nonce opener{};
  nonce acceptor{};
};

inline constexpr std::size_t proof_bytes = 32;

/// Reply of the accepting end to the opener's nonce on an unencrypted connection.
struct acceptor_reply {
  nonce fresh{};
  std::array<std::byte, proof_bytes> proof{}; ///< see reply_to()
};
static_assert(sizeof(acceptor_reply) == 64);

struct connect_request {
  std::uint64_t serial = 0; ///< serial number of the lane, or connection for copies, counted by its
                            ///< opener
  connection_kind kind{};
  node_id from = no_node;
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  std::uint32_t ring_bytes = 0;
  /// Node that the connection is for. It is part of the signed bytes, so that a forwarder cannot
  /// change it; a forwarder could change preamble::to.
  node_id to = no_node;
  std::array<std::byte, proof_bytes> proof{}; ///< see sign()
};
static_assert(sizeof(connect_request) == 64);

/// True if the rings of a lane may have this size.
[[nodiscard]] bool is_ring_size(std::uint64_t bytes) noexcept;

} // namespace farcall::tcp
