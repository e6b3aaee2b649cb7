#pragma once

#include <farcall/base/node_id.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

/// The first bytes of every connection (docs/wire.md): a preamble, which is unencrypted and says
/// where the connection wants to go, and behind it a connect request, which is encrypted if the job
/// is and proves that the connection may be made. Without encryption both ends exchange nonces
/// before that, so that what was recorded proves nothing.
namespace farcall::tcp {

inline constexpr std::uint64_t preamble_magic = 0x0a6c6c6163726166; // "farcall\n"
/// Version of everything that crosses a socket before the nodes' cards.
inline constexpr std::uint32_t connection_version = 8;

enum class connection_kind : std::uint32_t {
  control = 1,   ///< a host asks a server for a node
  lane = 2,      ///< a lane; who dials is its opener
  bulk = 3,      ///< copies; who dials asks for them
  lane_back = 4, ///< a lane whose opener cannot dial and has asked the other side to
  bulk_back = 5, ///< copies for a node that cannot dial and has asked the other side to
  join = 6,      ///< a process that something else has started comes to its host's port
};

/// Names a job among all that a server has ever seen. Public.
using job_name = std::array<std::byte, 16>;
/// Of the key that all nodes of a job have and nobody else.
inline constexpr std::size_t job_key_bytes = 32;

struct preamble {
  std::uint64_t magic = preamble_magic;
  std::uint32_t version = connection_version;
  connection_kind kind{};
  std::uint32_t is_encrypted = 0;
  std::uint32_t to = 0; ///< node
  job_name job{};
};
static_assert(sizeof(preamble) == 40);

/// What is wrong with a preamble, in words, or nothing.
[[nodiscard]] const char* flaw_of(const preamble& p) noexcept;

/// The server's reply on a control connection. It is unencrypted too, so that a client which cannot
/// be let in learns why.
enum class admission : std::uint32_t {
  come_in = 1,
  other_version = 2,
  needs_key = 3,
  has_no_key = 4,
  is_full = 5,
  is_draining = 6,
  is_of_another_user = 7,
  has_no_lane_left = 8, ///< of a lane, or of copies: in place of the node's proof
};
struct admission_message {
  std::uint64_t magic = preamble_magic;
  std::uint32_t version = connection_version;
  admission word{};
};
static_assert(sizeof(admission_message) == 16);

/// What an admission other than come_in means, for the user.
[[nodiscard]] const char* refusal_text(admission word) noexcept;

/// Throws error with the reason, unless a server's reply says that we may come in.
void require_admission(const admission_message& reply);

/// Made anew for each connection.
using nonce = std::array<std::byte, 32>;
[[nodiscard]] nonce new_nonce();

/// Those of an unencrypted connection, which the opener's begins; zeros inside TLS, which has its
/// own.
struct challenge {
  nonce opener{};
  nonce acceptor{};
};

inline constexpr std::size_t proof_bytes = 32;

/// What the opener of an unencrypted connection gets for its nonce.
struct acceptor_reply {
  nonce fresh{};
  std::array<std::byte, proof_bytes> proof{}; ///< see reply_to()
};
static_assert(sizeof(acceptor_reply) == 64);

struct connect_request {
  std::uint64_t serial = 0; ///< of the lane, or connection for copies, as its opener counts them
  connection_kind kind{};
  node_id from = no_node;
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  std::uint32_t ring_bytes = 0;
  node_id to = no_node; ///< the preamble's can be changed by anybody on the way
  std::array<std::byte, proof_bytes> proof{}; ///< see sign()
};
static_assert(sizeof(connect_request) == 64);

/// True when a lane may have rings of that size.
[[nodiscard]] bool is_ring_size(std::uint64_t bytes) noexcept;

} // namespace farcall::tcp
