#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// What the TCP of a node tells that of another, or its server, past their connections: the bytes
/// of a control message for transports (docs/wire.md).
namespace farcall::tcp {

/// What a node that cannot dial asks its peer to do, or the host where the peer cannot dial either.
struct dial_request {
  std::uint64_t serial = 0;
  connection_kind kind{}; ///< lane_back or bulk_back
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  std::uint32_t ring_bytes = 0;
  node_id forward_to = host_id; ///< the host: whom to connect with; else the asker is meant
  std::uint32_t has_failed = 0; ///< 1: back from who was asked, who has tried in vain
};
static_assert(sizeof(dial_request) == 32);

[[nodiscard]] std::vector<std::byte> encode(const dial_request& request);
/// Throws malformed_message.
[[nodiscard]] dial_request decode_dial_request(std::span<const std::byte> bytes);

/// What a node tells the server that has started it: it has taken in a connection.
[[nodiscard]] std::vector<std::byte> encode_taken(socket_number socket);
/// Throws malformed_message.
[[nodiscard]] socket_number decode_taken(std::span<const std::byte> bytes);

} // namespace farcall::tcp
