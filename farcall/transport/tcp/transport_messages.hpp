// SPDX-License-Identifier: Apache-2.0
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

/// Messages that the TCP transport of a node sends to the transports of other nodes, or to its
/// server. They do not use the connections between nodes. Each message is the content of a control
/// message for transports (docs/wire.md).
namespace farcall::tcp {

/// Meaning of a message about a connection.
enum class connection_word : std::uint32_t {
  dial = 0, ///< request to make the connection; for the kinds lane_back and bulk_back
  /// The asked node returns the request, because it could not make the connection.
  not_dialled = 1,
  /// The opener has given up the connection; for the kinds lane and bulk.
  given_up = 2,
  refused = 3, ///< reply to given_up: later bytes of the connection will be refused
};

/// Message about making or ending a connection. A node that cannot dial its peer sends it as a
/// request to that peer, or to the host if the peer cannot dial either. Two nodes also use it to
/// agree that a connection is lost.
struct dial_request {
  std::uint64_t serial = 0; ///< serial number of a lane, or of a connection for copies, counted by
                            ///< its opener
  connection_kind kind{};
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  std::uint32_t ring_bytes = 0;
  /// For a request to the host: node with which the host shall connect the sender. host_id if the
  /// receiver shall connect to the sender itself.
  node_id forward_to = host_id;
  connection_word word{};
};
static_assert(sizeof(dial_request) == 32);

/// Kinds of messages that the two ends of a lane, or of a connection for copies, exchange about it;
/// see delivery_checks.
enum class delivery_question : std::uint32_t {
  how_far = 1, ///< asks how many bytes have arrived
  so_far = 2,  ///< reply to how_far
  /// The sender has ended the connection, because bytes that it has sent did not arrive.
  given_up = 3,
};
struct delivery_message {
  static constexpr std::uint32_t of_opener = 1; ///< set if the connection was opened by the sender
                                                ///< of the message
  /// Set if the sender does not read the connection at present, for instance because it has no
  /// space.
  static constexpr std::uint32_t full = 2;
  static constexpr std::uint32_t of_copies = 4; ///< set if the connection is for copies rather than
                                                ///< a lane

  delivery_question what{};
  std::uint32_t flags = 0;
  std::uint64_t serial = 0;   ///< serial number of the connection, chosen by its opener
  std::uint64_t received = 0; ///< in a reply: number of bytes received after the connect request

  [[nodiscard]] bool is_of_opener() const noexcept { return (flags & of_opener) != 0; }
  [[nodiscard]] connection_kind kind() const noexcept {
    return (flags & of_copies) != 0 ? connection_kind::bulk : connection_kind::lane;
  }
  [[nodiscard]] bool is_full() const noexcept { return (flags & full) != 0; }
};
static_assert(sizeof(delivery_message) == 24);

/// Encodes a message about delivery. A delivery_message and a dial_request are sent by the same
/// kind of control message; the receiver distinguishes them by their sizes.
[[nodiscard]] std::vector<std::byte> encode(const delivery_message& message);
/// Decodes a message about delivery. Returns nullopt if `bytes` has another size, because it is a
/// dial_request. Throws malformed_message.
[[nodiscard]] std::optional<delivery_message>
decode_delivery_message(std::span<const std::byte> bytes);

[[nodiscard]] std::vector<std::byte> encode(const dial_request& request);
/// Throws malformed_message.
[[nodiscard]] dial_request decode_dial_request(std::span<const std::byte> bytes);

// Return in words why a connection was not made.
[[nodiscard]] std::string not_called_back(node_id peer);
[[nodiscard]] std::string tried_in_vain(node_id asked);
[[nodiscard]] std::string not_forwarded(node_id peer);

/// Encodes the report of a node to its server that the node has taken over a connection.
[[nodiscard]] std::vector<std::byte> encode_taken(socket_number socket);
/// Throws malformed_message.
[[nodiscard]] socket_number decode_taken(std::span<const std::byte> bytes);

} // namespace farcall::tcp
