#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// What the TCP of a node tells that of another, or its server, past their connections: the bytes
/// of a control message for transports (docs/wire.md).
namespace farcall::tcp {

/// The meaning of a message about a connection.
enum class connection_word : std::uint32_t {
  dial = 0,        ///< please make it: kinds lane_back and bulk_back
  not_dialled = 1, ///< back from the node that was asked, which has tried in vain
  given_up = 2,    ///< the connection counts as ended; kinds lane and bulk, from its opener
  refused = 3,     ///< back from the other end: its bytes have no effect any more
};

/// A request of a node that cannot dial, to its peer, or to the host if the peer cannot dial
/// either; and the agreement of the two about a connection that is lost.
struct dial_request {
  std::uint64_t serial = 0; ///< of a lane, or a connection for copies, as its opener counts them
  connection_kind kind{};
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  std::uint32_t ring_bytes = 0;
  node_id forward_to = host_id; ///< the host: whom to connect with; else the asker is meant
  connection_word word{};
};
static_assert(sizeof(dial_request) == 32);

/// Message of one end of a lane, or of a connection for copies, to the other; see delivery_checks.
enum class delivery_question : std::uint32_t {
  how_far = 1,  ///< how much has arrived?
  so_far = 2,   ///< the reply
  given_up = 3, ///< what was sent does not arrive: the connection ends
};
struct delivery_message {
  static constexpr std::uint32_t of_opener = 1; ///< the sender has opened the connection
  static constexpr std::uint32_t full = 2;      ///< nothing arrives, for want of space
  static constexpr std::uint32_t of_copies = 4; ///< the connection is for copies

  delivery_question what{};
  std::uint32_t flags = 0;
  std::uint64_t serial = 0;   ///< of the connection, chosen by its opener
  std::uint64_t received = 0; ///< bytes behind the connect request, in a reply

  [[nodiscard]] bool is_of_opener() const noexcept { return (flags & of_opener) != 0; }
  [[nodiscard]] connection_kind kind() const noexcept {
    return (flags & of_copies) != 0 ? connection_kind::bulk : connection_kind::lane;
  }
  [[nodiscard]] bool is_full() const noexcept { return (flags & full) != 0; }
};
static_assert(sizeof(delivery_message) == 24);

/// Messages of both kinds have one place; their sizes tell them apart.
[[nodiscard]] std::vector<std::byte> encode(const delivery_message& message);
/// Returns nothing if the message has another size. Throws malformed_message.
[[nodiscard]] std::optional<delivery_message>
decode_delivery_message(std::span<const std::byte> bytes);

[[nodiscard]] std::vector<std::byte> encode(const dial_request& request);
/// Throws malformed_message.
[[nodiscard]] dial_request decode_dial_request(std::span<const std::byte> bytes);

// Reasons why a connection has not come, in words.
[[nodiscard]] std::string not_called_back(node_id peer);
[[nodiscard]] std::string tried_in_vain(node_id asked);
[[nodiscard]] std::string not_forwarded(node_id peer);

/// What a node tells the server that has started it: it has taken in a connection.
[[nodiscard]] std::vector<std::byte> encode_taken(socket_number socket);
/// Throws malformed_message.
[[nodiscard]] socket_number decode_taken(std::span<const std::byte> bytes);

} // namespace farcall::tcp
