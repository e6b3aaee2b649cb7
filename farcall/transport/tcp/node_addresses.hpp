#pragma once

#include <farcall/base/byte_stream.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace farcall::tcp {

/// Where a node can be dialled, and from where that leads there.
struct node_address {
  std::string where; ///< "host:port" in numbers, names lead elsewhere on other machines; or "/path"
  std::string network; ///< in which it is valid (see network_identity()); empty: in all

  bool operator==(const node_address&) const = default;
};

/// As seen in `network`: loopback addresses, and those of one link, lead elsewhere in others.
[[nodiscard]] node_address address_in(const std::string& network, const socket_address& where);

/// Adds what is not there yet.
void add_addresses(std::vector<node_address>& to, const std::vector<node_address>& more);

/// The first 32; more are not told.
void write_addresses(byte_writer& to, std::span<const node_address> addresses);
/// Throws malformed_message.
[[nodiscard]] std::vector<node_address> read_addresses(byte_reader& from);

/// Those that lead there from `network`, the nearest first. Asks nobody. Throws malformed_message
/// for what is no address.
[[nodiscard]] std::vector<socket_address> addresses_from(const std::string& network,
                                                         std::span<const node_address> addresses);

/// What a node tells its peers.
struct node_addresses {
  std::string network;                 ///< its own
  std::string server;                  ///< "host:port" or "/path" as its host names it; empty: none
  std::vector<node_address> addresses; ///< of its server or its own; none: it cannot be dialled

  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Those in a peer's card; none where it says nothing. Throws malformed_message.
  [[nodiscard]] static node_addresses of(const card& peer);

  /// As addresses_from().
  [[nodiscard]] std::vector<socket_address> seen_from(const std::string& from) const;
  /// For this machine, which is in `from`: the same without those that lead to itself.
  [[nodiscard]] std::vector<socket_address> to_dial_from(const std::string& from) const;
};

} // namespace farcall::tcp
