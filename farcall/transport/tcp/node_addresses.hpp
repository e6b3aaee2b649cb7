// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/byte_stream.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace farcall::tcp {

/// An address at which a node can be dialled, and the network in which the address is valid.
struct node_address {
  std::string where;   ///< "host:port", in numbers because other machines may resolve a name
                       ///< differently; or "/path"
  std::string network; ///< network in which it is valid (network_identity()); empty if valid
                       ///< everywhere

  bool operator==(const node_address&) const = default;
};

/// Returns the address with the network in which it is valid: loopback and link-local addresses are
/// valid only in `network`, and other addresses everywhere.
[[nodiscard]] node_address address_in(const std::string& network, const socket_address& where);

/// Adds those addresses of `more` that `to` does not contain.
void add_addresses(std::vector<node_address>& to, const std::vector<node_address>& more);

/// Writes the first 32 addresses.
void write_addresses(byte_writer& to, std::span<const node_address> addresses);
/// Throws malformed_message.
[[nodiscard]] std::vector<node_address> read_addresses(byte_reader& from);

/// Returns the addresses that are valid in `network`, the nearest ones first. Makes no DNS query.
/// Throws malformed_message if an address is invalid.
[[nodiscard]] std::vector<socket_address> addresses_from(const std::string& network,
                                                         std::span<const node_address> addresses);

/// Addresses of a node, as its card tells them to peers.
struct node_addresses {
  std::string network;                 ///< the node's network
  std::string server;                  ///< server's "host:port" or "/path", as the host names it;
                                       ///< empty if the node has no server
  std::vector<node_address> addresses; ///< addresses of the node or its server; empty if the node
                                       ///< cannot be dialled

  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Reads the addresses from a peer's card. Returns none if the card has none. Throws
  /// malformed_message.
  [[nodiscard]] static node_addresses of(const card& peer);

  /// Calls addresses_from() with this node's addresses.
  [[nodiscard]] std::vector<socket_address> seen_from(const std::string& from) const;
  /// Returns the addresses that this machine, which is in the network `from`, can dial. If the node
  /// is in another network, leaves out addresses that lead to this machine itself.
  [[nodiscard]] std::vector<socket_address> to_dial_from(const std::string& from) const;
};

} // namespace farcall::tcp
